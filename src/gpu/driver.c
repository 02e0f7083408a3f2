/* The driver of NVIDIA GPUs, found at run time. Errors of the driver become a status and a sentence here.
   Threads of a process share the primary context, which is made current for the length of each call.
   Memory: a context pins up to 16 MiB of host memory for uploads, 16 pieces of 1 MiB, each at its first use.
   SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gpu/images.h"
#include "gpu/kernels/kernel_arguments.h"

static const char LIBRARY[] = "libcuda.so.1";

/* The functions of the driver API in use; they return 0 or an error. */
#define DRIVER_FUNCTIONS(X)                                                                                  \
    X(cuInit, (unsigned))                                                                                    \
    X(cuDriverGetVersion, (int *))                                                                           \
    X(cuDeviceGetCount, (int *))                                                                             \
    X(cuDeviceGet, (int *, int))                                                                             \
    X(cuDeviceGetName, (char *, int, int))                                                                   \
    X(cuDeviceTotalMem_v2, (size_t *, int))                                                                  \
    X(cuDeviceGetAttribute, (int *, int, int))                                                               \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                              \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                   \
    X(cuCtxPushCurrent_v2, (void *))                                                                         \
    X(cuCtxPopCurrent_v2, (void **))                                                                         \
    X(cuCtxSynchronize, (void))                                                                              \
    X(cuModuleLoadData, (void **, const void *))                                                             \
    X(cuModuleUnload, (void *))                                                                              \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                  \
    X(cuFuncSetAttribute, (void *, int, int))                                                                \
    X(cuMemAlloc_v2, (unsigned long long *, size_t))                                                         \
    X(cuMemFree_v2, (unsigned long long))                                                                    \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                           \
    X(cuMemFreeHost, (void *))                                                                               \
    X(cuMemcpyHtoDAsync_v2, (unsigned long long, const void *, size_t, void *))                              \
    X(cuMemcpyDtoHAsync_v2, (void *, unsigned long long, size_t, void *))                                    \
    X(cuMemsetD8Async, (unsigned long long, unsigned char, size_t, void *))                                  \
    X(cuStreamSynchronize, (void *))                                                                         \
    X(cuStreamGetCtx, (void *, void **))                                                                     \
    X(cuEventCreate, (void **, unsigned))                                                                    \
    X(cuEventRecord, (void *, void *))                                                                       \
    X(cuEventSynchronize, (void *))                                                                          \
    X(cuEventDestroy_v2, (void *))                                                                           \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
                       void **, void **))                                                                    \
    X(cuGetErrorString, (int, const char **))

struct driver {
    void *library;
#define DRIVER_MEMBER(name, arguments) int(*name) arguments;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Of the CUDA headers. */
enum {
    ERROR_OUT_OF_MEMORY = 2,
    ERROR_NO_DEVICE = 100,
    ERROR_NOT_FOUND = 500,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED = 97, /* bytes of shared memory of a block, if it asks for more than 48 KiB */
    FUNCTION_SHARED = 8,   /* what a function may ask for */
    EVENT_WITHOUT_TIME = 2,
    OLDEST_DRIVER = 12000, /* CUDA 12.0, whose drivers load images of every 12.x */
    OLDEST_MAJOR = 8,      /* compute capability: tensor cores with tf32 and 8-bit integers */
    KERNELS = KERNEL_COUNT_OF_ALL,
    UPLOADS = 16, /* pieces under way */
    UPLOAD_BYTES = 1 << 20
};

/* Pinned memory of the host, which the GPU reads when the stream comes to it. */
struct upload {
    void *memory; /* (UPLOAD_BYTES), NULL before its first use */
    void *read;   /* the event after the last copy from it */
};

struct device {
    struct driver driver;
    int number;
    void *context, *module, *stream;
    void *functions[KERNELS][GPU_WIDTHS];
    size_t shared_bytes;
    unsigned long long found; /* address of the word of findings */
    struct upload uploads[UPLOADS];
    size_t next_upload;
    bool profiled;
    double seconds[KERNELS]; /* while profiled */
};

static const struct {
    const char *name;
    bool of_width;
} kernel_names[KERNELS] = {
#define KERNEL_OF_WIDTH(constant, name)     {#name, true},
#define KERNEL_OF_ANY_WIDTH(constant, name) {#name, false},
    GPU_KERNELS_OF_WIDTH(KERNEL_OF_WIDTH) GPU_KERNELS_OF_ANY_WIDTH(KERNEL_OF_ANY_WIDTH)
#undef KERNEL_OF_WIDTH
#undef KERNEL_OF_ANY_WIDTH
};

/* ---- errors -------------------------------------------------------------------------------------------- */

/* The status of an error, and a sentence: what failed, and what the driver says. */
static hashattn_status fail(struct host *host, const struct driver *driver, int error, const char *what)
{
    const char *text = NULL;
    driver->cuGetErrorString(error, &text);
    return host_fail(host, error == ERROR_OUT_OF_MEMORY ? HASHATTN_NO_MEMORY : HASHATTN_FAILED,
                     "%s: the NVIDIA driver says: %s (error %d)", what, text == NULL ? "unknown" : text,
                     error);
}

#define TRY_DRIVER(call, what)                                                                               \
    do {                                                                                                     \
        int driver_error_ = (call);                                                                          \
        if (driver_error_ != 0)                                                                              \
            return fail(host, driver, driver_error_, what);                                                  \
    } while (0)

/* ---- the library --------------------------------------------------------------------------------------- */

static void *function_of(void *library, const char *name)
{
    return dlsym(library, name);
}

static hashattn_status load(struct host *host, struct driver *driver)
{
    int version = 0;
    /* Threads and exit handlers of the driver outlive a device. */
    driver->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver->library == NULL)
        return host_fail(host, HASHATTN_FAILED, "no NVIDIA driver: %.300s", dlerror());
#define DRIVER_FIND(name, arguments)                                                                         \
    {                                                                                                        \
        void *found = function_of(driver->library, #name);                                                   \
        FAIL_IF(found == NULL, host, HASHATTN_FAILED,                                                        \
                "the NVIDIA driver is too old: %s has no " #name ", which CUDA 12.0 has", LIBRARY);          \
        memcpy(&driver->name, &found, sizeof found);                                                         \
    }
    DRIVER_FUNCTIONS(DRIVER_FIND)
#undef DRIVER_FIND
    TRY_DRIVER(driver->cuDriverGetVersion(&version), "asking for the driver's version");
    FAIL_IF(version < OLDEST_DRIVER, host, HASHATTN_FAILED,
            "the NVIDIA driver is too old: it is for CUDA %d.%d, at least 12.0 is needed", version / 1000,
            version % 1000 / 10);
    int error = driver->cuInit(0);
    return error == 0 || error == ERROR_NO_DEVICE ? HASHATTN_OK
                                                  : fail(host, driver, error, "starting the driver");
}

static void unload(struct driver *driver)
{
    if (driver->library != NULL)
        dlclose(driver->library);
}

static int count_of(const struct driver *driver)
{
    int count = 0;
    return driver->cuDeviceGetCount(&count) == 0 ? count : 0;
}

hashattn_status device_count(struct host *host, int *count)
{
    struct driver driver = {.library = NULL};
    hashattn_status status = load(host, &driver);
    *count = status == HASHATTN_OK ? count_of(&driver) : 0;
    unload(&driver);
    return status;
}

static hashattn_status describe(struct host *host, const struct driver *driver, int index,
                                struct device_facts *facts)
{
    int number = 0;
    size_t bytes = 0;
    TRY_DRIVER(driver->cuDeviceGet(&number, index), "finding the device");
    TRY_DRIVER(driver->cuDeviceGetName(facts->name, sizeof facts->name, number), "asking for its name");
    TRY_DRIVER(driver->cuDeviceTotalMem_v2(&bytes, number), "asking for its memory");
    TRY_DRIVER(driver->cuDeviceGetAttribute(&facts->major, ATTRIBUTE_MAJOR, number), "asking for its age");
    TRY_DRIVER(driver->cuDeviceGetAttribute(&facts->minor, ATTRIBUTE_MINOR, number), "asking for its age");
    facts->memory_bytes = bytes;
    return HASHATTN_OK;
}

hashattn_status device_describe(struct host *host, int index, struct device_facts *facts)
{
    struct driver driver = {.library = NULL};
    hashattn_status status = load(host, &driver);
    *facts = (struct device_facts){.major = 0};
    if (status == HASHATTN_OK)
        status = describe(host, &driver, index, facts);
    unload(&driver);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* "cuda" or "cuda:N". */
static hashattn_status index_of(struct host *host, const char *name, int *index)
{
    const char *digits = name + 4;
    bool good = strncmp(name, "cuda", 4) == 0 && (*digits == '\0' || *digits == ':');
    *index = 0;
    if (good && *digits == ':') {
        char *end = NULL;
        long number = strtol(digits + 1, &end, 10);
        good = digits[1] >= '0' && digits[1] <= '9' && *end == '\0' && number < 1024;
        *index = (int)number;
    }
    FAIL_IF(!good, host, HASHATTN_INVALID, "`device` is '%.40s', allowed are cpu, cuda and cuda:N", name);
    return HASHATTN_OK;
}

/* The image for a GPU: that of its major version, or else the last one, PTX. */
static const struct gpu_image *image_for(int major)
{
    const struct gpu_image *image = gpu_images;
    while (image[1].name != NULL && image->major != major)
        image++;
    return image;
}

static hashattn_status find_functions(struct host *host, struct device *device)
{
    const struct driver *driver = &device->driver;
    for (int k = 0; k < KERNELS; k++)
        for (int w = 0; w < (kernel_names[k].of_width ? GPU_WIDTHS : 1); w++) {
            char name[64];
            int size = snprintf(name, sizeof name, "yoso_%s", kernel_names[k].name);
            if (kernel_names[k].of_width)
                snprintf(name + size, sizeof name - (size_t)size, "_%d", 32 << w);
            int error = driver->cuModuleGetFunction(&device->functions[k][w], device->module, name);
            FAIL_IF(error == ERROR_NOT_FOUND, host, HASHATTN_REFUSED,
                    "this library was built without kernels for GPUs; `make GPU=1` builds it with them");
            TRY_DRIVER(error, "finding a kernel");
            TRY_DRIVER(driver->cuFuncSetAttribute(device->functions[k][w], FUNCTION_SHARED,
                                                  (int)device->shared_bytes),
                       "giving a kernel shared memory");
        }
    return HASHATTN_OK;
}

/* With the context current. */
static hashattn_status load_kernels(struct host *host, struct device *device, int major)
{
    const struct driver *driver = &device->driver;
    const unsigned long long nothing = GPU_NOTHING;
    TRY_DRIVER(driver->cuModuleLoadData(&device->module, image_for(major)->data), "loading the kernels");
    TRY(find_functions(host, device));
    TRY_DRIVER(driver->cuMemAlloc_v2(&device->found, sizeof nothing), "memory for findings");
    TRY_DRIVER(driver->cuMemcpyHtoDAsync_v2(device->found, &nothing, sizeof nothing, NULL), "writing");
    TRY_DRIVER(driver->cuStreamSynchronize(NULL), "waiting"); /* other streams need not wait for this one */
    return HASHATTN_OK;
}

static hashattn_status enter(struct host *host, const struct device *device)
{
    const struct driver *driver = &device->driver;
    TRY_DRIVER(driver->cuCtxPushCurrent_v2(device->context), "entering the device");
    return HASHATTN_OK;
}

static void leave(const struct device *device)
{
    void *context;
    device->driver.cuCtxPopCurrent_v2(&context);
}

static hashattn_status open_device(struct host *host, const char *name, struct device *device)
{
    const struct driver *driver = &device->driver;
    struct device_facts facts;
    int index, shared = 0;
    TRY(index_of(host, name, &index));
    TRY(load(host, &device->driver));
    int count = count_of(driver);
    FAIL_IF(count == 0, host, HASHATTN_FAILED, "the NVIDIA driver finds no GPU");
    FAIL_IF(index >= count, host, HASHATTN_INVALID,
            "`device` is '%.40s', the NVIDIA driver finds %d, cuda:0 to %d", name, count, count - 1);
    TRY(describe(host, driver, index, &facts));
    FAIL_IF(facts.major < OLDEST_MAJOR, host, HASHATTN_REFUSED,
            "%s has compute capability %d.%d, at least %d.0 is needed", facts.name, facts.major, facts.minor,
            OLDEST_MAJOR);
    TRY_DRIVER(driver->cuDeviceGet(&device->number, index), "finding the device");
    TRY_DRIVER(driver->cuDeviceGetAttribute(&shared, ATTRIBUTE_SHARED, device->number),
               "asking for its memory");
    device->shared_bytes = (size_t)shared;
    TRY_DRIVER(driver->cuDevicePrimaryCtxRetain(&device->context, device->number), "opening the device");
    TRY(enter(host, device));
    hashattn_status status = load_kernels(host, device, facts.major);
    leave(device);
    return status;
}

hashattn_status device_open(struct host *host, const char *name, struct device **device)
{
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **device, "a device", &block));
    hashattn_status status = open_device(host, name, block);
    if (status != HASHATTN_OK)
        device_free(host, block);
    else
        *device = block;
    return status;
}

static void free_uploads(const struct device *device)
{
    for (size_t i = 0; i < UPLOADS; i++) {
        if (device->uploads[i].read != NULL)
            device->driver.cuEventDestroy_v2(device->uploads[i].read);
        if (device->uploads[i].memory != NULL)
            device->driver.cuMemFreeHost(device->uploads[i].memory);
    }
}

void device_free(struct host *host, struct device *device)
{
    if (device == NULL)
        return;
    const struct driver *driver = &device->driver;
    if (device->context != NULL) {
        if (driver->cuCtxPushCurrent_v2(device->context) == 0) {
            driver->cuCtxSynchronize(); /* kernels and copies use what is freed here */
            free_uploads(device);
            if (device->found != 0)
                driver->cuMemFree_v2(device->found);
            if (device->module != NULL)
                driver->cuModuleUnload(device->module);
            leave(device);
        }
        driver->cuDevicePrimaryCtxRelease_v2(device->number);
    }
    unload(&device->driver);
    memory_free(host, device);
}

size_t device_shared_bytes(const struct device *device)
{
    return device->shared_bytes;
}

uint64_t device_found(const struct device *device)
{
    return device->found;
}

/* ---- the stream ---------------------------------------------------------------------------------------- */

/* Runs one call of the driver inside the device. */
#define IN_DEVICE(call, what)                                                                                \
    do {                                                                                                     \
        const struct driver *driver = &device->driver;                                                       \
        TRY(enter(host, device));                                                                            \
        int in_device_error_ = (call);                                                                       \
        leave(device);                                                                                       \
        TRY_DRIVER(in_device_error_, what);                                                                  \
    } while (0)

hashattn_status device_set_stream(struct host *host, struct device *device, void *stream)
{
    void *owner = device->context;
    if (stream != NULL)
        IN_DEVICE(driver->cuStreamGetCtx(stream, &owner), "asking whose the stream is");
    FAIL_IF(owner != device->context, host, HASHATTN_INVALID,
            "the stream belongs to another device or context than this one, cuda:%d", device->number);
    device->stream = stream;
    return HASHATTN_OK;
}

/* At most UPLOAD_BYTES. Returns the driver's error. Waits for the copy that read this memory UPLOADS pieces
   ago. Pageable memory would not do: the driver may wait for the stream, or read `from` after it has
   returned. */
static int write_piece(struct device *device, uint64_t to, const void *from, size_t bytes)
{
    const struct driver *driver = &device->driver;
    struct upload *upload = &device->uploads[device->next_upload];
    int error = 0;
    device->next_upload = (device->next_upload + 1) % UPLOADS;
    if (upload->memory == NULL)
        error = driver->cuMemHostAlloc(&upload->memory, UPLOAD_BYTES, 0);
    if (error == 0 && upload->read == NULL)
        error = driver->cuEventCreate(&upload->read, EVENT_WITHOUT_TIME);
    if (error == 0)
        error = driver->cuEventSynchronize(upload->read);
    if (error != 0)
        return error;
    memcpy(upload->memory, from, bytes);
    error = driver->cuMemcpyHtoDAsync_v2(to, upload->memory, bytes, device->stream);
    return error != 0 ? error : driver->cuEventRecord(upload->read, device->stream);
}

hashattn_status device_write(struct host *host, struct device *device, uint64_t to, const void *from,
                             size_t bytes)
{
    for (size_t at = 0; at < bytes; at += UPLOAD_BYTES)
        IN_DEVICE(write_piece(device, to + at, (const char *)from + at, size_min(UPLOAD_BYTES, bytes - at)),
                  "writing to the GPU");
    return HASHATTN_OK;
}

hashattn_status device_clear(struct host *host, struct device *device, uint64_t to, size_t bytes)
{
    if (bytes > 0)
        IN_DEVICE(driver->cuMemsetD8Async(to, 0, bytes, device->stream), "clearing memory of the GPU");
    return HASHATTN_OK;
}

static hashattn_status synchronize(struct host *host, struct device *device)
{
    IN_DEVICE(driver->cuStreamSynchronize(device->stream), "waiting for the GPU");
    return HASHATTN_OK;
}

hashattn_status device_read(struct host *host, struct device *device, void *to, uint64_t from, size_t bytes)
{
    if (bytes > 0)
        IN_DEVICE(driver->cuMemcpyDtoHAsync_v2(to, from, bytes, device->stream), "reading from the GPU");
    return synchronize(host, device);
}

/* The failure that a finding stands for. */
static hashattn_status tell(struct host *host, uint64_t found)
{
    static const char *const arrays[] = {"", "query", "key", "value", "dout"};
    unsigned finding = (unsigned)(found >> GPU_FINDING_SHIFT), row = (unsigned)found;
    unsigned unit = (unsigned)(found >> GPU_UNIT_SHIFT) & 0xfffffff;
    unsigned sequence = unit >> GPU_HEAD_BITS, head = unit & ((1u << GPU_HEAD_BITS) - 1);
    FAIL_IF(finding == GPU_SAVED, host, HASHATTN_INVALID,
            "saved was not written by a forward that returned OK with this mechanism, options and problem");
    FAIL_IF(finding == GPU_OVERFLOW, host, HASHATTN_REFUSED,
            "a result is beyond float32, at sequence %u, head %u, row %u", sequence, head, row);
    return host_fail(host, HASHATTN_INVALID, "%s holds NaN or infinity at sequence %u, head %u, row %u",
                     arrays[finding], sequence, head, row);
}

hashattn_status device_wait(struct host *host, struct device *device)
{
    const uint64_t nothing = GPU_NOTHING;
    uint64_t found = nothing;
    TRY(device_read(host, device, &found, device->found, sizeof found));
    if (found == nothing)
        return HASHATTN_OK;
    TRY(device_write(host, device, device->found, &nothing, sizeof nothing));
    return tell(host, found);
}

/* ---- memory and kernels -------------------------------------------------------------------------------- */

hashattn_status device_memory_new(struct host *host, struct device *device, size_t bytes, const char *what,
                                  uint64_t *address)
{
    char sentence[120];
    unsigned long long found = 0;
    *address = 0;
    snprintf(sentence, sizeof sentence, "no memory on the GPU for %.60s (%zu bytes)", what, bytes);
    IN_DEVICE(driver->cuMemAlloc_v2(&found, bytes), sentence);
    *address = found;
    return HASHATTN_OK;
}

void device_memory_free(struct host *host, struct device *device, uint64_t address)
{
    if (address == 0 || enter(host, device) != HASHATTN_OK)
        return;
    device->driver.cuMemFree_v2(address);
    leave(device);
}

static hashattn_status launch_now(struct host *host, struct device *device, const struct gpu_launch *launch,
                                  void **arguments)
{
    int width = kernel_names[launch->kernel].of_width ? (launch->width >= 64) + (launch->width >= 128) : 0;
    char sentence[80];
    snprintf(sentence, sizeof sentence, "kernel %s", kernel_names[launch->kernel].name);
    IN_DEVICE(driver->cuLaunchKernel(device->functions[launch->kernel][width], launch->grid[0],
                                     launch->grid[1], launch->grid[2], launch->threads, 1, 1,
                                     (unsigned)launch->shared_bytes, device->stream, arguments, NULL),
              sentence);
    return HASHATTN_OK;
}

hashattn_status device_launch(struct host *host, struct device *device, const struct gpu_launch *launch,
                              void **arguments)
{
    if (!device->profiled)
        return launch_now(host, device, launch, arguments);
    TRY(synchronize(host, device));
    double begun = clock_seconds();
    TRY(launch_now(host, device, launch, arguments));
    TRY(synchronize(host, device));
    device->seconds[launch->kernel] += clock_seconds() - begun;
    return HASHATTN_OK;
}

void device_profile(struct device *device, bool on)
{
    device->profiled = on;
    memset(device->seconds, 0, sizeof device->seconds);
}

const char *device_profile_get(const struct device *device, enum gpu_kernel kernel, double *seconds)
{
    *seconds = device->seconds[kernel];
    return kernel_names[kernel].name;
}
