typedef void *handle;
typedef unsigned long long address;

#define FUNCTIONS(each) \
    each(cuInit, (unsigned)) \
    each(cuGetErrorString, (int, const char **)) \
    each(cuDeviceGet, (int *, int)) \
    each(cuDeviceGetName, (char *, int, int)) \
    each(cuDeviceGetAttribute, (int *, int, int)) \
    each(cuDevicePrimaryCtxRetain, (handle *, int)) \
    each(cuDevicePrimaryCtxRelease_v2, (int)) \
    each(cuCtxGetCurrent, (handle *)) \
    each(cuCtxGetDevice, (int *)) \
    each(cuCtxSetCurrent, (handle)) \
    each(cuStreamSynchronize, (handle)) \
    each(cuModuleLoad, (handle *, const char *)) \
    each(cuModuleUnload, (handle)) \
    each(cuModuleGetFunction, (handle *, handle, const char *)) \
    each(cuFuncSetAttribute, (handle, int, int)) \
    each(cuMemAlloc_v2, (address *, size_t)) \
    each(cuMemFree_v2, (address)) \
    each(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, handle)) \
    each(cuMemcpyDtoHAsync_v2, (void *, address, size_t, handle)) \
    each(cuMemsetD8Async, (address, unsigned char, size_t, handle)) \
    each(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, \
                          void **, void **)) \
    each(cuEventCreate, (handle *, unsigned)) \
    each(cuEventRecord, (handle, handle)) \
    each(cuEventElapsedTime, (float *, handle, handle)) \
    each(cuEventDestroy_v2, (handle))
#define MEMBER(name, parameters) int (*name) parameters;

enum { L2_BYTES = 38, DYNAMIC_SHARED = 8, MAP_BYTES = 128, MOST_ARGUMENTS = 128 };

struct driver {
    FUNCTIONS(MEMBER)
    int (*cuTensorMapEncodeTiled)(void *, int, unsigned, address, const uint64_t *, const uint64_t *,
                                  const uint32_t *, const uint32_t *, int, int, int, int);    /* in newer drivers */
    void *library, *maps;         /* maps of tensors, for the arguments of one launch */
    handle stream, module, entries[LAUNCHES], events[2];
    address scratch;
    int device, has_context;      /* whether it retains the context of the first GPU */
    char device_name[256], why[2048];
};

static int refused(struct driver *driver, int status, const char *what)
{
    const char *why = NULL;
    if (status)
        driver->cuGetErrorString(status, &why);
    return status ? failed(driver, what, why ? why : "the driver refuses it") : 0;
}

static int open_context(struct driver *driver)
{
    handle context = NULL;
    if (refused(driver, driver->cuInit(0), "CUDA")
        || refused(driver, driver->cuCtxGetCurrent(&context), "the current context"))
        return 1;
    if (context)
        return refused(driver, driver->cuCtxGetDevice(&driver->device), "the current context");
    if (refused(driver, driver->cuDeviceGet(&driver->device, 0), "the first GPU")
        || refused(driver, driver->cuDevicePrimaryCtxRetain(&context, driver->device), "a context"))
        return 1;
    driver->has_context = 1;
    return refused(driver, driver->cuCtxSetCurrent(context), "a context");
}

static int open_device(struct driver *driver, const char *folder, handle stream)
{
    static const char *const images[] = {IMAGES};
    int status = 1;
    driver->library = open_library(driver, "cuInit", "libcuda.so.1", "CUDA_DRIVER");
    if (driver->library == NULL FUNCTIONS(LOAD) || open_context(driver))
        return 1;
    driver->stream = stream;
    driver->cuDeviceGetName(driver->device_name, sizeof driver->device_name, driver->device);
    for (size_t i = 0; i < sizeof images / sizeof images[0] && status; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, images[i]);
        status = driver->cuModuleLoad(&driver->module, path);
    }
    if (refused(driver, status, "the image, which was compiled for " TARGET))
        return 1;
    for (int i = 0; i < LAUNCHES; i++) {
        if (refused(driver, driver->cuModuleGetFunction(&driver->entries[i], driver->module, launches[i].entry),
                    launches[i].entry))
            return 1;
        if (launches[i].shared && refused(driver, driver->cuFuncSetAttribute(
                driver->entries[i], DYNAMIC_SHARED, (int)launches[i].shared), "shared memory"))
            return 1;
    }
    if (posix_memalign(&driver->maps, 64, MOST_ARGUMENTS * MAP_BYTES))    /* maps must be aligned so */
        return failed(driver, "tensor maps", "there is no memory for them");
    return 0;
}

static int finish(struct driver *driver)
{
    return refused(driver, driver->cuStreamSynchronize(driver->stream), "a run");
}

static int allocate(struct driver *driver, const struct buffer *buffer, address *memory)
{
    return refused(driver, driver->cuMemAlloc_v2(memory, buffer->bytes), buffer->name);
}

static int write_memory(struct driver *driver, const struct buffer *buffer, address memory, const void *content)
{
    return refused(driver, driver->cuMemcpyHtoDAsync_v2(memory, content, buffer->bytes, driver->stream), buffer->name)
        || finish(driver);
}

static int read_memory(struct driver *driver, const struct buffer *buffer, address memory, void *content)
{
    return refused(driver, driver->cuMemcpyDtoHAsync_v2(content, memory, buffer->bytes, driver->stream), buffer->name)
        || finish(driver);
}

/* Writes the 128 bytes of a CUtensorMap, which the entry takes by value, to memory of the host. */
static int encode_map(struct driver *driver, const struct tensor_map *map, address memory, void *bytes)
{
    const uint32_t ones[5] = {1, 1, 1, 1, 1};
    const int swizzle = map->swizzle == 128 ? 3 : (int)map->swizzle / 32;
    if (load(driver, &driver->cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled"))
        return 1;
    return refused(driver, driver->cuTensorMapEncodeTiled(bytes, map->type, map->axes, memory, map->sizes, map->steps,
                                                          map->box, ones, 0, swizzle, 3, 0), "a tensor map");
}

static int enqueue(struct driver *driver, int index, const address *memories)
{
    const struct launch *launch = &launches[index];
    static const address none = 0;
    void *values[MOST_ARGUMENTS];
    unsigned count = 0;
    for (unsigned i = 0; i < launch->count; i++) {
        const struct argument *argument = &launch->arguments[i];
        void *map = (unsigned char *)driver->maps + (size_t)i * MAP_BYTES;
        switch (argument->kind) {
        case ADDRESS: values[count++] = (void *)(uintptr_t)&memories[argument->buffer]; break;
        case TENSOR_MAP:
            if (encode_map(driver, argument->map, memories[argument->buffer], map))
                return 1;
            values[count++] = map;
            break;
        case NUMBER: values[count++] = (void *)(uintptr_t)argument->number; break;
        case NULL_ADDRESS: values[count++] = (void *)(uintptr_t)&none; break;
        case LOCAL_MEMORY: break;    /* it is dynamic shared memory, which launch->shared counts */
        }
    }
    return refused(driver, driver->cuLaunchKernel(
        driver->entries[index], (unsigned)(launch->global[0] / launch->local[0]),
        (unsigned)(launch->global[1] / launch->local[1]), (unsigned)(launch->global[2] / launch->local[2]),
        (unsigned)launch->local[0], (unsigned)launch->local[1], (unsigned)launch->local[2], launch->shared,
        driver->stream, values, NULL), launch->entry);
}

/* Overwrites the second-level cache, so that a run finds nothing there. */
static int begin_timing(struct driver *driver, double *begin)
{
    int l2 = 0;
    size_t bytes;
    driver->cuDeviceGetAttribute(&l2, L2_BYTES, driver->device);
    bytes = 5 * (size_t)(l2 > 0 ? l2 : 1);
    *begin = 0;
    for (int i = 0; i < 2; i++)
        if (!driver->events[i] && refused(driver, driver->cuEventCreate(&driver->events[i], 0), "an event"))
            return 1;
    return (!driver->scratch && refused(driver, driver->cuMemAlloc_v2(&driver->scratch, bytes), "scratch memory"))
        || refused(driver, driver->cuMemsetD8Async(driver->scratch, 0, bytes, driver->stream), "scratch memory")
        || refused(driver, driver->cuEventRecord(driver->events[0], driver->stream), "an event");
}

static double end_timing(struct driver *driver, double begin)
{
    float milliseconds;
    if (refused(driver, driver->cuEventRecord(driver->events[1], driver->stream), "an event") || finish(driver)
        || refused(driver, driver->cuEventElapsedTime(&milliseconds, driver->events[0], driver->events[1]), "an event"))
        return -1;
    return 1e-3 * (double)milliseconds - begin;
}

static void close_device(struct driver *driver, const address *memories)
{
    for (int i = 0; i < BUFFERS; i++)
        if (memories[i])
            driver->cuMemFree_v2(memories[i]);
    if (driver->scratch)
        driver->cuMemFree_v2(driver->scratch);
    for (int i = 0; i < 2; i++)
        if (driver->events[i])
            driver->cuEventDestroy_v2(driver->events[i]);
    if (driver->module)
        driver->cuModuleUnload(driver->module);
    if (driver->has_context)
        driver->cuDevicePrimaryCtxRelease_v2(driver->device);
    free(driver->maps);
}
