/* cuemu: runs CUDA-style kernels on the processor, for tests on machines without a GPU.

   One fiber per CUDA thread, one block after another, on the calling thread. Barriers and warp collectives switch
   fibers. What it finds that a run on a GPU may not:
   - wrong results, with any debugger; AddressSanitizer: memory out of bounds (every block's shared memory is a heap
     block of exactly its size, filled with 0xFF);
   - ThreadSanitizer: data races. Fibers are announced as threads that only barriers, collectives and atomics order, so
     a missing __syncthreads() is reported in every run, although nothing runs in parallel;
   - a barrier that not all threads reach: "deadlock", with the threads and what they wait for;
   - results that depend on the order of threads or blocks: CUEMU_ORDER=forward|reverse|SEED;
   - sums of tensor cores that need the rounding of float: these cut as a GPU does;
   - with -fsanitize=alignment: a vector read from an address that is not a multiple of its size.
   What it cannot find: speed, and errors of the device compiler.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CUEMU_H
#define CUEMU_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define CUEMU_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define CUEMU_ASAN 1
#endif

namespace cuemu {

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };

/* Threads that arrive wait until `expected` have. Two tokens by parity: a thread that is already at the next
   generation must not pass on what it did since this one. */
struct barrier {
    unsigned arrived = 0, generation = 0;
    char token[2] = {0, 0};
};

struct warp {
    struct by_mask { unsigned mask; barrier bar; } bars[32];
    unsigned num_bars = 0;
    uint64_t slot[32][8];
    unsigned served = 0;
};

struct fiber {
    void *sp = nullptr;
    char *stack = nullptr;
    uint3 thread_idx{};
    unsigned index = 0;
    bool done = true;
    const barrier *waits = nullptr; /* until its generation is not wait_generation */
    unsigned wait_generation = 0;
    const char *wait_name = "";
    void *tsan = nullptr, *asan = nullptr;
};

enum { STACK = 256 * 1024 };

struct machine {
    fiber *now = nullptr;
    fiber scheduler;
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    barrier block_barrier;
    unsigned num_threads = 0, alive = 0;
    uint3 block_idx{};
    dim3 block_dim, grid_dim;
    unsigned char *shared = nullptr;
    const std::function<void()> *body = nullptr;
    uint64_t order = 0; /* 0 forward, 1 reverse, else a seed */
    uint64_t switches = 0;
    char block_token = 0, end_token = 0;
};

#define CUEMU_PLAIN __attribute__((no_sanitize("thread", "address"), noinline))

CUEMU_PLAIN inline machine &m()
{
    static thread_local machine machine;
    return machine;
}

/* ---- switching ---- */
#if defined(__x86_64__)
asm(R"(
.text
.weak cuemu_swap
.type cuemu_swap,@function
cuemu_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuemu_swap,.-cuemu_swap
)");
#elif defined(__aarch64__)
asm(R"(
.text
.weak cuemu_swap
.type cuemu_swap,%function
cuemu_swap:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size cuemu_swap,.-cuemu_swap
)");
#else
#error "cuemu: write cuemu_swap for this processor"
#endif
extern "C" void cuemu_swap(void **from, void *to);

CUEMU_PLAIN inline void switch_to(fiber &from, fiber &to, bool last)
{
    m().switches++;
    m().now = &to;
#if CUEMU_TSAN
    __tsan_switch_to_fiber(to.tsan, 1 /* no synchronisation */);
#endif
#if CUEMU_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from.asan, to.stack, STACK);
#endif
    cuemu_swap(&from.sp, to.sp);
#if CUEMU_ASAN
    const void *bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(m().now->asan, &bottom, &size);
    if (m().scheduler.stack == nullptr && m().now != &m().scheduler) m().scheduler.stack = (char *)bottom;
#endif
    (void)last;
}

CUEMU_PLAIN inline void to_scheduler(bool last = false) { switch_to(*m().now, m().scheduler, last); }

inline void release(void *token)
{
#if CUEMU_TSAN
    __tsan_release(token);
#endif
    (void)token;
}
inline void acquire(void *token)
{
#if CUEMU_TSAN
    __tsan_acquire(token);
#endif
    (void)token;
}

/* ---- barriers ---- */
CUEMU_PLAIN inline bool complete(barrier &bar, unsigned expected)
{
    if (bar.arrived < expected) return false;
    bar.arrived = 0;
    bar.generation++;
    return true;
}

CUEMU_PLAIN inline void wait_at(barrier &bar, unsigned expected, const char *name)
{
    fiber *self = m().now;
    unsigned generation = bar.generation;
    char *token = &bar.token[generation & 1];
    release(token);
    bar.arrived++;
    if (!complete(bar, expected)) {
        self->waits = &bar;
        self->wait_generation = generation;
        self->wait_name = name;
        to_scheduler();
        self->waits = nullptr;
    }
    acquire(token);
}

CUEMU_PLAIN inline unsigned lane() { return m().now->index & 31; }
CUEMU_PLAIN inline warp &my_warp() { return m().warps[m().now->index >> 5]; }

CUEMU_PLAIN inline unsigned present(unsigned mask)
{
    unsigned base = m().now->index & ~31u, left = m().num_threads - base;
    return left >= 32 ? mask : mask & ((1u << left) - 1);
}

CUEMU_PLAIN inline void warp_wait(unsigned mask, const char *name)
{
    warp &w = my_warp();
    unsigned at = 0;
    while (at < w.num_bars && w.bars[at].mask != mask) at++;
    if (at == w.num_bars) {
        if (at == 32) { fprintf(stderr, "cuemu: more than 32 masks in a warp\n"); abort(); }
        w.bars[w.num_bars++] = {mask, {}};
    }
    if (!(mask >> lane() & 1)) { fprintf(stderr, "cuemu: %s: lane %u is not in mask %08x\n", name, lane(), mask); abort(); }
    wait_at(w.bars[at].bar, (unsigned)__builtin_popcount(present(mask)), name);
}

/* Copies that ThreadSanitizer does not see, because the exchange itself is no access of the kernel. */
CUEMU_PLAIN inline void copy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4) ((volatile uint32_t *)to)[i / 4] = ((const volatile uint32_t *)from)[i / 4];
}
template <typename T> CUEMU_PLAIN inline void put(const T &value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    copy(my_warp().slot[lane()], &value, sizeof value);
}
template <typename T> CUEMU_PLAIN inline T get(unsigned from)
{
    T value{};
    copy(&value, my_warp().slot[from & 31], sizeof value);
    return value;
}

CUEMU_PLAIN inline void put_bytes(const void *from, size_t bytes) { copy(my_warp().slot[lane()], from, bytes); }
CUEMU_PLAIN inline void get_bytes(void *to, size_t bytes) { copy(to, my_warp().slot[lane()], bytes); }
/* True for one lane between two full barriers of a warp. */
CUEMU_PLAIN inline bool first_of_warp()
{
    warp &w = my_warp();
    for (unsigned i = 0; i < w.num_bars; i++)
        if (w.bars[i].mask == 0xffffffffu) {
            bool first = w.served != w.bars[i].bar.generation;
            w.served = w.bars[i].bar.generation;
            return first;
        }
    return true;
}

/* ---- running ---- */
CUEMU_PLAIN inline void fiber_main()
{
    machine &machine = m();
#if CUEMU_ASAN
    const void *bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    machine.scheduler.stack = (char *)bottom;
#endif
    for (;;) {
        fiber *self = machine.now;
        acquire(&machine.block_token);
        (*machine.body)();
        release(&machine.end_token);
        self->done = true;
        machine.alive--;
        if (machine.alive > 0) complete(machine.block_barrier, machine.alive); /* those who left count as arrived */
        to_scheduler();
    }
}

inline void start_stack(fiber &f)
{
    if (f.stack == nullptr) f.stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void **top = (void **)((uintptr_t)(f.stack + STACK) & ~(uintptr_t)63);
#if defined(__x86_64__)
    *--top = nullptr; /* so that rsp + 8 is a multiple of 16 at the entry of fiber_main */
    *--top = (void *)&fiber_main;
    for (int i = 0; i < 6; i++) *--top = nullptr;
#else
    top -= 20;
    memset(top, 0, 160);
    top[11] = (void *)&fiber_main; /* x30 */
#endif
    f.sp = top;
}

inline uint64_t mix(uint64_t x)
{
    x ^= x >> 31; x *= 0x7fb5d329728ea185u; x ^= x >> 27; x *= 0x81dadef4bc2dd44du; return x ^ x >> 33;
}

inline void report_deadlock()
{
    machine &machine = m();
    fprintf(stderr, "cuemu: deadlock in block (%u, %u, %u): %u of %u threads left\n", machine.block_idx.x, machine.block_idx.y,
            machine.block_idx.z, machine.alive, machine.num_threads);
    for (unsigned i = 0, shown = 0; i < machine.num_threads && shown < 8; i++)
        if (!machine.fibers[i].done) { fprintf(stderr, "  thread %u waits at %s\n", i, machine.fibers[i].wait_name); shown++; }
    abort();
}

CUEMU_PLAIN inline void run_block()
{
    machine &machine = m();
    machine.alive = machine.num_threads;
    machine.block_barrier = barrier();
    for (warp &w : machine.warps) w.num_bars = 0, w.served = 0;
    unsigned n = machine.num_threads;
    for (unsigned i = 0; i < n; i++) { machine.fibers[i].done = false; machine.fibers[i].waits = nullptr; }
    release(&machine.block_token);
    for (uint64_t round = 0; machine.alive > 0; round++) {
        bool moved = false;
        unsigned turn = machine.order > 1 ? (unsigned)(mix(machine.order + round * 977) % n) : 0;
        for (unsigned step = 0; step < n; step++) {
            unsigned i = machine.order == 1 ? n - 1 - step : (step + turn) % n;
            if (machine.order > 1 && (machine.order + round) % 2) i = n - 1 - i;
            fiber &f = machine.fibers[i];
            if (f.done || (f.waits != nullptr && f.waits->generation == f.wait_generation)) continue;
            moved = true;
            switch_to(machine.scheduler, f, false);
        }
        if (!moved) report_deadlock();
    }
}

CUEMU_PLAIN inline void place(fiber &f, unsigned i, dim3 block)
{
    f.index = i;
    f.thread_idx = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
}

CUEMU_PLAIN inline void set_shared(void *shared) { m().shared = (unsigned char *)shared; }
CUEMU_PLAIN inline void *end_token() { return &m().end_token; }

CUEMU_PLAIN inline void next_block(uint64_t at, uint64_t blocks)
{
    machine &machine = m();
    dim3 grid = machine.grid_dim;
    uint64_t b = machine.order == 1 ? blocks - 1 - at : machine.order > 1 ? (at + machine.order) % blocks : at;
    machine.block_idx = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
    machine.now = &machine.scheduler;
#if CUEMU_TSAN
    /* Nothing orders the fibers of a block with those of other blocks, so races between blocks show. Every block has its
       threads on other fibers: thread i of two blocks may race too. */
    for (unsigned i = 0; i < machine.num_threads; i++)
        place(machine.fibers[i], (i + (unsigned)at * 37) % machine.num_threads, machine.block_dim);
#endif
}

CUEMU_PLAIN inline void set_up(dim3 grid, dim3 block, const std::function<void()> *body)
{
    machine &machine = m();
    const char *order = getenv("CUEMU_ORDER");
    machine.order = order == nullptr || !strcmp(order, "forward") ? 0 : !strcmp(order, "reverse") ? 1 : strtoull(order, nullptr, 10) + 2;
    machine.num_threads = block.x * block.y * block.z;
    if (machine.num_threads == 0 || machine.num_threads > 1024) { fprintf(stderr, "cuemu: %u threads\n", machine.num_threads); abort(); }
    machine.block_dim = block;
    machine.grid_dim = grid;
    machine.body = body;
    if (machine.fibers.size() < machine.num_threads) machine.fibers.resize(machine.num_threads);
    machine.warps.resize((machine.num_threads + 31) / 32);
#if CUEMU_TSAN
    if (machine.scheduler.tsan == nullptr) machine.scheduler.tsan = __tsan_get_current_fiber();
#endif
    for (unsigned i = 0; i < machine.num_threads; i++) {
        fiber &f = machine.fibers[i];
        place(f, i, block);
        if (f.stack == nullptr) start_stack(f);
#if CUEMU_TSAN
        if (f.tsan == nullptr) f.tsan = __tsan_create_fiber(0);
#endif
    }
}

inline void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body)
{
    if (shared_bytes > 227 * 1024) { fprintf(stderr, "cuemu: %zu bytes of shared memory\n", shared_bytes); abort(); }
    set_up(grid, block, &body);
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    std::vector<void *> used;
    for (uint64_t at = 0; at < blocks; at++) {
        void *shared = nullptr;
        if (shared_bytes && posix_memalign(&shared, 128, shared_bytes)) abort();
        if (shared_bytes) memset(shared, 0xff, shared_bytes);
        set_shared(shared);
        next_block(at, blocks);
        run_block();
#if CUEMU_TSAN
        used.push_back(shared); /* no address twice in a launch */
#else
        free(shared);
#endif
    }
    acquire(end_token());
    for (void *shared : used) free(shared);
}

} /* namespace cuemu */

/* ---- the CUDA dialect ---- */
namespace cuemu {
CUEMU_PLAIN inline uint3 thread_idx() { return m().now->thread_idx; }
CUEMU_PLAIN inline uint3 block_idx() { return m().block_idx; }
CUEMU_PLAIN inline dim3 block_dim() { return m().block_dim; }
CUEMU_PLAIN inline dim3 grid_dim() { return m().grid_dim; }
CUEMU_PLAIN inline unsigned char *shared_memory() { return m().shared; }
CUEMU_PLAIN inline void block_wait() { wait_at(m().block_barrier, m().alive, "__syncthreads"); }
}
#define threadIdx (cuemu::thread_idx())
#define blockIdx (cuemu::block_idx())
#define blockDim (cuemu::block_dim())
#define gridDim (cuemu::grid_dim())

static inline void __syncthreads() { cuemu::block_wait(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { cuemu::warp_wait(mask, "__syncwarp"); }

template <typename T> static inline T cuemu_exchange(unsigned mask, T value, unsigned from, const char *name)
{
    cuemu::put(value);
    cuemu::warp_wait(mask, name);
    T out = cuemu::get<T>(from);
    cuemu::warp_wait(mask, name);
    return out;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from) { return cuemu_exchange(mask, value, (unsigned)from, "__shfl_sync"); }
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int by) { return cuemu_exchange(mask, value, cuemu::lane() ^ (unsigned)by, "__shfl_xor_sync"); }
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by)
{
    unsigned lane = cuemu::lane();
    return cuemu_exchange(mask, value, lane >= by ? lane - by : lane, "__shfl_up_sync");
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    cuemu::put<uint32_t>(predicate != 0);
    cuemu::warp_wait(mask, "__ballot_sync");
    unsigned out = 0;
    for (unsigned i = 0; i < 32; i++)
        if (cuemu::present(mask) >> i & 1) out |= cuemu::get<uint32_t>(i) << i;
    cuemu::warp_wait(mask, "__ballot_sync");
    return out;
}
static inline unsigned __match_any_sync(unsigned mask, unsigned value)
{
    cuemu::put(value);
    cuemu::warp_wait(mask, "__match_any_sync");
    unsigned out = 0;
    for (unsigned i = 0; i < 32; i++)
        if (cuemu::present(mask) >> i & 1) out |= (unsigned)(cuemu::get<unsigned>(i) == value) << i;
    cuemu::warp_wait(mask, "__match_any_sync");
    return out;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

static inline int atomicAdd(int *at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
static inline unsigned atomicAdd(unsigned *at, unsigned value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
static inline unsigned atomicOr(unsigned *at, unsigned value) { return __atomic_fetch_or(at, value, __ATOMIC_RELAXED); }
static inline unsigned long long atomicMin(unsigned long long *at, unsigned long long value)
{
    unsigned long long old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old > value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}
static inline unsigned atomicMax(unsigned *at, unsigned value)
{
    unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline int __float2int_rn(float a) { return (int)lrintf(a); }
static inline float __int_as_float(int a) { float f; memcpy(&f, &a, 4); return f; }
static inline int __float_as_int(float a) { int i; memcpy(&i, &a, 4); return i; }
static inline unsigned __float_as_uint(float a) { unsigned i; memcpy(&i, &a, 4); return i; }
static inline float __uint_as_float(unsigned a) { float f; memcpy(&f, &a, 4); return f; }

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };

/* ---- tensor cores: fragments as in gpu/kernels/dialect.cuh ---- */

/* Lanes put their fragments; the first that goes on computes for all. */
struct cuemu_fragments { uint32_t a[4], b[2], d[4]; };
template <typename F> static inline void cuemu_mma(void *d, const uint32_t a[4], const uint32_t b[2], F product)
{
    static_assert(sizeof(cuemu_fragments) <= sizeof(cuemu::warp::slot[0]));
    cuemu_fragments mine;
    for (int i = 0; i < 4; i++) mine.a[i] = a[i];
    for (int i = 0; i < 2; i++) mine.b[i] = b[i];
    memcpy(mine.d, d, 16);
    cuemu::put_bytes(&mine, sizeof mine);
    cuemu::warp_wait(0xffffffffu, "mma");
    if (cuemu::first_of_warp()) product((char(*)[64])(void *)cuemu::my_warp().slot);
    cuemu::warp_wait(0xffffffffu, "mma");
    cuemu::get_bytes(&mine, sizeof mine);
    memcpy(d, mine.d, 16);
}
template <typename A, typename B> CUEMU_PLAIN static void cuemu_product_bytes(char (*lanes)[64])
{
    int32_t a[16][32], b[32][8], d[16][8];
    for (unsigned lane = 0; lane < 32; lane++) {
        const cuemu_fragments *f = (const cuemu_fragments *)lanes[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned c = 0; c < 4; c++) a[g + 8 * (i % 2)][16 * (i / 2) + 4 * t + c] = (A)(f->a[i] >> 8 * c);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned c = 0; c < 4; c++) b[16 * i + 4 * t + c][g] = (B)(f->b[i] >> 8 * c);
        for (unsigned i = 0; i < 4; i++) d[g + 8 * (i / 2)][2 * t + i % 2] = (int32_t)f->d[i];
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++)
            for (int j = 0; j < 8; j++) d[i][j] = (int32_t)((uint32_t)d[i][j] + (uint32_t)(a[i][k] * b[k][j]));
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) ((cuemu_fragments *)lanes[lane])->d[i] = (uint32_t)d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
}
/* x without what is below 24 bits of numbers less than 2^exponent. */
CUEMU_PLAIN static double cuemu_cut(double x, int exponent)
{
    double unit = ldexp(1.0, exponent - 24);
    return trunc(x / unit) * unit;
}
/* d + the four products, as tensor cores add: terms are aligned to the largest one and cut, not rounded, and so is the sum
   (Fasi et al. 2021, Numerical behavior of NVIDIA tensor cores). GPUs since the A100 keep a bit or more below these 24. */
CUEMU_PLAIN static double cuemu_add_cut(double d, const double *a, const double (*b)[8])
{
    double terms[5] = {d, a[0] * b[0][0], a[1] * b[1][0], a[2] * b[2][0], a[3] * b[3][0]}, largest = 0, sum = 0;
    int exponent = 0;
    for (double term : terms) largest = fmax(largest, fabs(term)), sum += term;
    if (largest == 0 || !std::isfinite(sum)) return sum;
    sum = 0;
    frexp(largest, &exponent);
    for (double term : terms) sum += cuemu_cut(term, exponent);
    frexp(sum, &exponent);
    return cuemu_cut(sum, exponent);
}
CUEMU_PLAIN static void cuemu_product_tf32(char (*lanes)[64])
{
    double a[16][8], b[8][8], d[16][8];
    for (unsigned lane = 0; lane < 32; lane++) { /* the device drops the low 13 bits of operands */
        const cuemu_fragments *f = (const cuemu_fragments *)lanes[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++) a[g + 8 * (i % 2)][t + 4 * (i / 2)] = (double)__uint_as_float(f->a[i] & ~0x1fffu);
        for (unsigned i = 0; i < 2; i++) b[t + 4 * i][g] = (double)__uint_as_float(f->b[i] & ~0x1fffu);
        for (unsigned i = 0; i < 4; i++) d[g + 8 * (i / 2)][2 * t + i % 2] = (double)__uint_as_float(f->d[i]);
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k += 4) d[i][j] = cuemu_add_cut(d[i][j], &a[i][k], (const double(*)[8])&b[k][j]);
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) ((cuemu_fragments *)lanes[lane])->d[i] = __float_as_uint((float)d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2]);
}
#define CUEMU_MMA(name, a_type, b_type) \
    static inline void name(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) { cuemu_mma(d, a, b, cuemu_product_bytes<a_type, b_type>); }
CUEMU_MMA(mma_s8s8, int8_t, int8_t)
CUEMU_MMA(mma_s8u8, int8_t, uint8_t)
CUEMU_MMA(mma_u8s8, uint8_t, int8_t)
CUEMU_MMA(mma_u8u8, uint8_t, uint8_t)
static inline void mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2]) { cuemu_mma(d, a, b, cuemu_product_tf32); }

#endif
