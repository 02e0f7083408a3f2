/* A libcuda.so.1 for machines without a GPU: the part of the driver API that src/gpu/driver.c uses, with the kernels
   run by the emulator when they are launched. "Device memory" is the heap, so AddressSanitizer checks it, and is
   filled with 0xFF. The variable FAKE_CUDA makes it fail: words of
     version=11040  the version that it says it has     devices=0   the number of devices (default 1)
     major=7        compute capability (default 9)      shared=N    bytes of shared memory of a block
     memory=N       bytes of all allocations            kernels=0   no kernel is found, as in a library without images
     fail=NAME      the kernel whose name has NAME fails, and everything after it
   Streams: NULL, and any pointer; (void *)2 belongs to another context.
   SPDX-License-Identifier: Apache-2.0 */
#include "yoso.cu"

#include "kernel_names.h"
#include <map>
#include <string>
#include <utility>

namespace {

struct kernel {
    const char *name;
    void (*run)(const void *function, void **arguments);
    const void *function;
};

template <typename... A> struct call {
    template <size_t... I> static void apply(void (*f)(A...), void **p, std::index_sequence<I...>) { f(*(A *)p[I]...); }
    static void run(const void *function, void **p) { apply((void (*)(A...))function, p, std::index_sequence_for<A...>()); }
};
template <typename... A> kernel of(const char *name, void (*f)(A...)) { return {name, &call<A...>::run, (const void *)f}; }

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
size_t bytes_in_use;
int broken; /* the error of a kernel that failed */
int contexts;
enum { MOST_SHARED = 227 * 1024, OUT_OF_MEMORY = 2, INVALID = 1, NO_DEVICE = 100, NOT_FOUND = 500, BAD_ACCESS = 700 };
}

extern "C" {
typedef int CUresult;
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
CUresult cuCtxPushCurrent_v2(void *) { return 0; }
CUresult cuCtxPopCurrent_v2(void **) { return 0; }
CUresult cuModuleLoadData(void **m, const void *) { *m = (void *)1; return 0; }
CUresult cuModuleUnload(void *) { return 0; }
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
    if (blocks.count(p) == 0) return INVALID;
    bytes_in_use -= blocks[p];
    blocks.erase(p);
    free((void *)p);
    return 0;
}
CUresult cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, void *) { if (!broken) memcpy((void *)to, from, n); return broken; }
CUresult cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *) { if (!broken) memcpy(to, (void *)from, n); return broken; }
CUresult cuMemsetD8Async(unsigned long long to, unsigned char v, size_t n, void *) { if (!broken) memset((void *)to, v, n); return broken; }
CUresult cuStreamSynchronize(void *) { return broken; }
CUresult cuStreamGetCtx(void *stream, void **c) { *c = stream == (void *)2 ? (void *)2 : (void *)1; return 0; }
CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        void *, void **arguments, void **)
{
    const kernel *k = (const kernel *)f;
    if (broken) return broken;
    if (gx == 0 || gy == 0 || gz == 0 || gy > 65535 || gz > 65535) return INVALID;
    auto limit = shared_limit.find(k);
    if (shared > (limit == shared_limit.end() ? 48u * 1024 : limit->second)) return INVALID;
    std::string failing = fault("fail", "");
    if (!failing.empty() && failing == k->name) {
        broken = BAD_ACCESS; /* told by a later call, as on a device */
        return 0;
    }
    cuemu::launch({gx, gy, gz}, {bx, by, bz}, shared, [=] { k->run(k->function, arguments); });
    return 0;
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
