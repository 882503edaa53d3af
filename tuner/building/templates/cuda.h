/* A GPU of NVIDIA, by the driver API. The driver's library is loaded when the program runs, so that no header and no
   library is needed to compile. CUDA_DRIVER in the environment names another file than libcuda.so.1; CUDA_VISIBLE_DEVICES
   chooses the GPU, as for every program. */

typedef void *handle;
typedef uint64_t address;

#define FUNCTIONS(each) \
    each(cuInit, (unsigned)) \
    each(cuGetErrorString, (int, const char **)) \
    each(cuDeviceGet, (int *, int)) \
    each(cuDeviceGetName, (char *, int, int)) \
    each(cuDeviceGetAttribute, (int *, int, int)) \
    each(cuDevicePrimaryCtxRetain, (handle *, int)) \
    each(cuDevicePrimaryCtxRelease_v2, (int)) \
    each(cuCtxSetCurrent, (handle)) \
    each(cuCtxSynchronize, (void)) \
    each(cuModuleLoadData, (handle *, const void *)) \
    each(cuModuleUnload, (handle)) \
    each(cuModuleGetFunction, (handle *, handle, const char *)) \
    each(cuFuncSetAttribute, (handle, int, int)) \
    each(cuMemAlloc_v2, (address *, size_t)) \
    each(cuMemFree_v2, (address)) \
    each(cuMemcpyHtoD_v2, (address, const void *, size_t)) \
    each(cuMemcpyDtoH_v2, (void *, address, size_t)) \
    each(cuMemsetD8Async, (address, unsigned char, size_t, handle)) \
    each(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, \
                          void **, void **)) \
    each(cuEventCreate, (handle *, unsigned)) \
    each(cuEventRecord, (handle, handle)) \
    each(cuEventElapsedTime, (float *, handle, handle)) \
    each(cuEventDestroy_v2, (handle))
#define DECLARE(name, parameters) static int (*name) parameters;

FUNCTIONS(DECLARE)
static int (*cuTensorMapEncodeTiled)(void *, int, unsigned, address, const uint64_t *, const uint64_t *,
                                     const uint32_t *, const uint32_t *, int, int, int, int);

enum { L2_BYTES = 38, DYNAMIC_SHARED = 8, MAP_BYTES = 128, MOST_ARGUMENTS = 128 };

static handle module, functions[LAUNCHES], events[2];
static address memories[BUFFERS], scratch;
static size_t scratch_bytes;
static unsigned char *maps_of_launches[LAUNCHES];

static void succeeded(int status, const char *what)
{
    const char *why = NULL;
    if (status) {
        cuGetErrorString(status, &why);
        stop(what, why ? why : "the driver refuses it");
    }
}

static void open_device(void)
{
    static const char *const images[] = {IMAGES};
    handle context;
    int device = 0, l2 = 0, status = 1;
    open_library("libcuda.so.1", "CUDA_DRIVER");
    FUNCTIONS(LOAD)
    succeeded(cuInit(0), "CUDA");
    succeeded(cuDeviceGet(&device, 0), "the first GPU");
    cuDeviceGetName(device_name, sizeof device_name, device);
    cuDeviceGetAttribute(&l2, L2_BYTES, device);
    succeeded(cuDevicePrimaryCtxRetain(&context, device), "a context");
    succeeded(cuCtxSetCurrent(context), "a context");
    for (size_t i = 0; i < sizeof images / sizeof images[0] && status; i++) {
        size_t size = 0;
        void *image = file_content(images[i], &size);
        status = cuModuleLoadData(&module, image);
        free(image);
    }
    succeeded(status, "the image was compiled for " TARGET);
    for (int i = 0; i < 2; i++)
        succeeded(cuEventCreate(&events[i], 0), "an event");
    scratch_bytes = 5 * (size_t)(l2 > 0 ? l2 : 1);    /* the second-level cache is overwritten before each run */
    succeeded(cuMemAlloc_v2(&scratch, scratch_bytes), "scratch memory");
}

static void allocate_buffer(int index)
{
    succeeded(cuMemAlloc_v2(&memories[index], bytes_of(index)), abouts[index].name);
}

static void write_buffer(int index, const void *content)
{
    succeeded(cuMemcpyHtoD_v2(memories[index], content, bytes_of(index)), abouts[index].name);
}

static void read_buffer(int index, void *content)
{
    succeeded(cuMemcpyDtoH_v2(content, memories[index], bytes_of(index)), abouts[index].name);
}

/* Writes the 128 bytes of a CUtensorMap, which the entry takes by value, to memory of the host. */
static void encode_map(const struct argument *argument, void *bytes)
{
    const struct tensor_map *map = argument->map;
    const uint32_t ones[5] = {1, 1, 1, 1, 1};
    const int type = map->type == FP32 ? 7 : map->type == FP16 ? 6 : 9;
    const int swizzle = map->swizzle == 128 ? 3 : (int)map->swizzle / 32;
    load(&cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
    succeeded(cuTensorMapEncodeTiled(bytes, type, map->axes, memories[argument->buffer], map->sizes, map->steps,
                                     map->box, ones, 0, swizzle, 3, 0), "a tensor map");
}

static void prepare_launches(void)
{
    for (int i = 0; i < LAUNCHES; i++) {
        const struct launch *launch = &launches[i];
        succeeded(cuModuleGetFunction(&functions[i], module, launch->entry), launch->entry);
        if (launch->shared)
            succeeded(cuFuncSetAttribute(functions[i], DYNAMIC_SHARED, (int)launch->shared), "shared memory");
        maps_of_launches[i] = memory(launch->count, MAP_BYTES);    /* aligned to 64 bytes, as maps must be */
        for (unsigned j = 0; j < launch->count; j++)
            if (launch->arguments[j].kind == TENSOR_MAP)
                encode_map(&launch->arguments[j], maps_of_launches[i] + (size_t)j * MAP_BYTES);
    }
}

static void enqueue(int index)
{
    const struct launch *launch = &launches[index];
    static const address none = 0;
    void *values[MOST_ARGUMENTS];
    unsigned count = 0;
    for (unsigned j = 0; j < launch->count; j++) {
        const struct argument *argument = &launch->arguments[j];
        switch (argument->kind) {
        case ADDRESS: values[count++] = &memories[argument->buffer]; break;
        case TENSOR_MAP: values[count++] = maps_of_launches[index] + (size_t)j * MAP_BYTES; break;
        case NUMBER: values[count++] = (void *)(uintptr_t)argument->number; break;
        case NULL_ADDRESS: values[count++] = (void *)(uintptr_t)&none; break;
        case LOCAL_MEMORY: break;    /* it is dynamic shared memory, which launch->shared counts */
        }
    }
    succeeded(cuLaunchKernel(functions[index], (unsigned)(launch->global[0] / launch->local[0]),
                             (unsigned)(launch->global[1] / launch->local[1]),
                             (unsigned)(launch->global[2] / launch->local[2]), (unsigned)launch->local[0],
                             (unsigned)launch->local[1], (unsigned)launch->local[2], launch->shared, NULL, values,
                             NULL), launch->entry);
}

/* Launches all entries in order; returns the seconds that the GPU takes. */
static double run(void)
{
    float milliseconds;
    succeeded(cuMemsetD8Async(scratch, 0, scratch_bytes, NULL), "scratch memory");
    succeeded(cuEventRecord(events[0], NULL), "an event");
    for (int i = 0; i < LAUNCHES; i++)
        enqueue(i);
    succeeded(cuEventRecord(events[1], NULL), "an event");
    succeeded(cuCtxSynchronize(), "a run");
    succeeded(cuEventElapsedTime(&milliseconds, events[0], events[1]), "an event");
    return 1e-3 * (double)milliseconds;
}

static void close_device(void)
{
    for (int i = 0; i < LAUNCHES; i++)
        free(maps_of_launches[i]);
    for (int i = 0; i < BUFFERS; i++)
        cuMemFree_v2(memories[i]);
    cuMemFree_v2(scratch);
    cuEventDestroy_v2(events[0]);
    cuEventDestroy_v2(events[1]);
    cuModuleUnload(module);
    cuDevicePrimaryCtxRelease_v2(0);
}
