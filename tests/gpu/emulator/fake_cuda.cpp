/* A libcuda.so.1 for machines without a GPU: the part of the driver API that src/gpu/driver.c uses, with the kernels
   run by the emulator when they are launched. "Device memory" is the heap, so AddressSanitizer checks it, and is
   filled with 0xFF. The variable FAKE_CUDA makes it fail: words of
     version=11040  the version that it says it has     devices=0   the number of devices (default 1)
     major=7        compute capability (default 9)      shared=N    bytes of shared memory of a block
     memory=N       bytes of all allocations            kernels=0   no kernel is found, as in a library without images
     pinned=0       no pinned memory
     fail=NAME      the kernel whose name has NAME fails, and everything after it
   With CUEMU_LATE=1 a stream does nothing before somebody waits for it, as on a busy GPU: memory of the host that a copy
   reads must still be there and unchanged, and only what was started before an event is done when the event is.
   Streams: NULL, and any pointer; (void *)2 belongs to another context.
   SPDX-License-Identifier: Apache-2.0 */
#include "yoso.cu"

#include "kernel_names.h"
#include <deque>
#include <map>
#include <string>
#include <tuple>

typedef int CUresult;

namespace {

/* A launch copies the arguments, as the driver does. */
struct kernel {
    const char *name;
    std::function<void()> (*bind)(const void *function, void **arguments);
    const void *function;
};

template <typename... A> struct call {
    template <size_t... I> static std::tuple<A...> copy(void **p, std::index_sequence<I...>) { return {*(A *)p[I]...}; }
    static std::function<void()> bind(const void *function, void **p)
    {
        return [function, given = copy(p, std::index_sequence_for<A...>())] { std::apply((void (*)(A...))function, given); };
    }
};
template <typename... A> kernel of(const char *name, void (*f)(A...)) { return {name, &call<A...>::bind, (const void *)f}; }

const std::map<std::string, kernel> &kernels()
{
#define OF_WIDTH(constant, name)                           \
    {"yoso_" #name "_32", of(#name, yoso_##name##_32)},    \
    {"yoso_" #name "_64", of(#name, yoso_##name##_64)},    \
    {"yoso_" #name "_128", of(#name, yoso_##name##_128)},
#define OF_ANY_WIDTH(constant, name) {"yoso_" #name, of(#name, yoso_##name)},
    static const std::map<std::string, kernel> all = {GPU_KERNELS_OF_WIDTH(OF_WIDTH) GPU_KERNELS_OF_ANY_WIDTH(OF_ANY_WIDTH)};
    return all;
}

/* The value of a word of FAKE_CUDA. */
std::string fault(const char *name, const char *otherwise)
{
    const char *all = getenv("FAKE_CUDA");
    std::string text = std::string(" ") + (all == nullptr ? "" : all) + " ", word = std::string(" ") + name + "=";
    size_t at = text.find(word);
    if (at == std::string::npos) return otherwise;
    at += word.size();
    return text.substr(at, text.find(' ', at) - at);
}
long number(const char *name, long otherwise) { return atol(fault(name, std::to_string(otherwise).c_str()).c_str()); }

std::map<const kernel *, size_t> shared_limit;
std::map<unsigned long long, size_t> blocks;
std::map<void *, size_t> pinned; /* memory of the host */
size_t bytes_in_use;
int broken; /* the error of a kernel that failed */
int contexts;
thread_local int entered; /* contexts of this thread's stack */
enum { MOST_SHARED = 227 * 1024, OUT_OF_MEMORY = 2, INVALID = 1, NO_DEVICE = 100, NO_CONTEXT = 201, NOT_FOUND = 500, BAD_ACCESS = 700 };

/* What streams have to do, in the order in which it was started. */
std::deque<std::function<void()>> work;
uint64_t started, finished;

CUresult finish(uint64_t until)
{
    for (; finished < until && !work.empty(); finished++) {
        if (!broken) work.front()();
        work.pop_front();
    }
    return broken;
}
CUresult start(std::function<void()> what)
{
    if (entered == 0) return NO_CONTEXT;
    if (broken) return broken;
    const char *late = getenv("CUEMU_LATE");
    work.push_back(std::move(what));
    started++;
    if (late == nullptr || *late != '1') finish(started);
    return 0;
}
}

extern "C" {
CUresult cuInit(unsigned) { return number("devices", 1) > 0 ? 0 : NO_DEVICE; }
CUresult cuDriverGetVersion(int *v) { *v = (int)number("version", 13000); return 0; }
CUresult cuDeviceGetCount(int *n) { *n = (int)number("devices", 1); return *n > 0 ? 0 : NO_DEVICE; }
CUresult cuDeviceGet(int *d, int index) { *d = index; return 0; }
CUresult cuDeviceGetName(char *name, int size, int) { snprintf(name, (size_t)size, "emulator"); return 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, int) { *bytes = (size_t)1 << 30; return 0; }
CUresult cuDeviceGetAttribute(int *v, int what, int)
{
    *v = what == 97 ? (int)number("shared", MOST_SHARED) : what == 75 ? (int)number("major", 9) : 0;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(void **c, int) { *c = (void *)1; contexts++; return 0; }
CUresult cuDevicePrimaryCtxRelease_v2(int) { contexts--; return 0; }
CUresult cuCtxPushCurrent_v2(void *) { entered++; return 0; }
CUresult cuCtxPopCurrent_v2(void **) { entered--; return 0; }
CUresult cuCtxSynchronize() { return entered == 0 ? NO_CONTEXT : finish(started); }
CUresult cuModuleLoadData(void **m, const void *) { *m = (void *)1; return entered == 0 ? NO_CONTEXT : 0; }
CUresult cuModuleUnload(void *) { return entered == 0 ? NO_CONTEXT : 0; }
CUresult cuModuleGetFunction(void **f, void *, const char *name)
{
    auto it = kernels().find(name);
    if (it == kernels().end() || number("kernels", 1) == 0) return NOT_FOUND;
    *f = (void *)&it->second;
    return 0;
}
CUresult cuFuncSetAttribute(void *f, int what, int value)
{
    if (what != 8 || value > number("shared", MOST_SHARED)) return INVALID;
    shared_limit[(const kernel *)f] = (size_t)value;
    return 0;
}
CUresult cuMemAlloc_v2(unsigned long long *p, size_t bytes)
{
    if (entered == 0) return NO_CONTEXT;
    if (broken) return broken;
    if (bytes == 0) return INVALID;
    if (bytes_in_use + bytes > (size_t)number("memory", 1l << 40)) return OUT_OF_MEMORY;
    *p = (unsigned long long)aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    if (*p == 0) return OUT_OF_MEMORY;
    memset((void *)*p, 0xff, bytes);
    bytes_in_use += bytes;
    blocks[*p] = bytes;
    return 0;
}
CUresult cuMemFree_v2(unsigned long long p)
{
    if (entered == 0) return NO_CONTEXT;
    if (blocks.count(p) == 0) return INVALID;
    finish(started);
    bytes_in_use -= blocks[p];
    blocks.erase(p);
    free((void *)p);
    return 0;
}
/* Memory of the host, which copies read when it is their turn. */
CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
    if (entered == 0) return NO_CONTEXT;
    if (fault("pinned", "1") == "0") return OUT_OF_MEMORY;
    *p = malloc(bytes);
    pinned[*p] = bytes;
    return broken;
}
CUresult cuMemFreeHost(void *p)
{
    if (entered == 0) return NO_CONTEXT;
    memset(p, 0xff, pinned[p]);
    pinned.erase(p);
    free(p);
    return 0;
}
CUresult cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, void *) { return start([=] { memcpy((void *)to, from, n); }); }
CUresult cuMemsetD8Async(unsigned long long to, unsigned char v, size_t n, void *) { return start([=] { memset((void *)to, v, n); }); }
CUresult cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *)
{
    CUresult error = start([=] { memcpy(to, (void *)from, n); });
    return error != 0 ? error : finish(started);
}
CUresult cuStreamSynchronize(void *) { return entered == 0 ? NO_CONTEXT : finish(started); }
/* An event: the number of what was started before it. */
CUresult cuEventCreate(void **e, unsigned) { *e = new uint64_t(0); return entered == 0 ? NO_CONTEXT : 0; }
CUresult cuEventRecord(void *e, void *) { *(uint64_t *)e = started; return entered == 0 ? NO_CONTEXT : broken; }
CUresult cuEventSynchronize(void *e) { return finish(*(uint64_t *)e); }
CUresult cuEventDestroy_v2(void *e) { delete (uint64_t *)e; return 0; }
CUresult cuStreamGetCtx(void *stream, void **c) { *c = stream == (void *)2 ? (void *)2 : (void *)1; return 0; }
CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        void *, void **arguments, void **)
{
    const kernel *k = (const kernel *)f;
    if (entered == 0) return NO_CONTEXT;
    if (broken) return broken;
    if (gx == 0 || gy == 0 || gz == 0 || gy > 65535 || gz > 65535) return INVALID;
    auto limit = shared_limit.find(k);
    if (shared > (limit == shared_limit.end() ? 48u * 1024 : limit->second)) return INVALID;
    std::string failing = fault("fail", "");
    if (!failing.empty() && failing == k->name) return start([] { broken = BAD_ACCESS; }); /* told by a later call, as on a device */
    return start([=, body = k->bind(k->function, arguments)] { cuemu::launch({gx, gy, gz}, {bx, by, bz}, shared, body); });
}
CUresult cuGetErrorString(CUresult error, const char **s)
{
    *s = error == OUT_OF_MEMORY ? "out of memory" : error == BAD_ACCESS ? "an illegal memory access was encountered" : "an error of the emulator";
    return 0;
}

/* For tests. */
size_t fake_cuda_bytes(void) { return bytes_in_use; }
int fake_cuda_contexts(void) { return contexts; }
void fake_cuda_mend(void) { broken = 0; }
}
