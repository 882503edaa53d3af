/* An OpenCL 1.2 device. The OpenCL library is loaded when the program runs, so that no header and no library is needed
   to compile. OPENCL_LIBRARY in the environment names another library than libOpenCL.so.1, OPENCL_DEVICE a part of the
   name of another device. */

typedef void *handle;

#define FUNCTIONS(each) \
    each(clGetPlatformIDs, (uint32_t, handle *, uint32_t *)) \
    each(clGetDeviceIDs, (handle, uint64_t, uint32_t, handle *, uint32_t *)) \
    each(clGetDeviceInfo, (handle, uint32_t, size_t, void *, size_t *)) \
    each(clGetProgramBuildInfo, (handle, handle, uint32_t, size_t, void *, size_t *)) \
    each(clBuildProgram, (handle, uint32_t, const handle *, const char *, void *, void *)) \
    each(clEnqueueWriteBuffer, (handle, handle, uint32_t, size_t, size_t, const void *, uint32_t, void *, void *)) \
    each(clEnqueueReadBuffer, (handle, handle, uint32_t, size_t, size_t, void *, uint32_t, void *, void *)) \
    each(clSetKernelArg, (handle, uint32_t, size_t, const void *)) \
    each(clEnqueueNDRangeKernel, (handle, handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, \
                                  void *, void *)) \
    each(clFinish, (handle)) \
    each(clReleaseMemObject, (handle)) \
    each(clReleaseKernel, (handle)) \
    each(clReleaseProgram, (handle)) \
    each(clReleaseCommandQueue, (handle)) \
    each(clReleaseContext, (handle))
#define MAKERS(each) \
    each(clCreateContext, (const intptr_t *, uint32_t, const handle *, void *, void *, int32_t *)) \
    each(clCreateCommandQueue, (handle, handle, uint64_t, int32_t *)) \
    each(clCreateProgramWithSource, (handle, uint32_t, const char **, const size_t *, int32_t *)) \
    each(clCreateKernel, (handle, const char *, int32_t *)) \
    each(clCreateBuffer, (handle, uint64_t, size_t, void *, int32_t *))
#define DECLARE(name, parameters) static int32_t (*name) parameters;
#define DECLARE_MAKER(name, parameters) static handle (*name) parameters;

FUNCTIONS(DECLARE)
MAKERS(DECLARE_MAKER)

enum { ANY_DEVICE = -1, READ_WRITE = 1, DEVICE_NAME = 0x102B, BUILD_LOG = 0x1183, MOST_DEVICES = 32 };

static handle device, context, queue, program, memories[BUFFERS], kernels[LAUNCHES];

static void succeeded(int32_t status, const char *what)
{
    char why[64];
    if (status) {
        snprintf(why, sizeof why, "OpenCL's error %d", (int)status);
        stop(what, why);
    }
}

/* The device that the kernel was chosen for, by its name, or else the first one. */
static void choose_device(void)
{
    const char *wanted = getenv("OPENCL_DEVICE"), *part = wanted ? wanted : DEVICE_MODEL;
    handle platforms[MOST_DEVICES], devices[MOST_DEVICES];
    uint32_t platform_count = 0, count;
    if (clGetPlatformIDs(MOST_DEVICES, platforms, &platform_count) || !platform_count)
        stop("OpenCL", "there is no platform; install an OpenCL driver");
    for (uint32_t i = 0; i < platform_count && i < MOST_DEVICES; i++) {
        count = 0;
        if (clGetDeviceIDs(platforms[i], (uint64_t)(uint32_t)ANY_DEVICE, MOST_DEVICES, devices, &count))
            continue;
        for (uint32_t j = 0; j < count && j < MOST_DEVICES; j++) {
            char name[sizeof device_name] = "";
            clGetDeviceInfo(devices[j], DEVICE_NAME, sizeof name - 1, name, NULL);
            if (device == NULL || strstr(name, part)) {
                device = devices[j];
                memcpy(device_name, name, sizeof name);
            }
            if (strstr(name, part))
                return;
        }
    }
    if (device == NULL || wanted)
        stop("OpenCL", wanted ? "no device has OPENCL_DEVICE in its name" : "there is no device");
}

static void open_device(void)
{
    size_t size = 0;
    int32_t status;
    char *source;
    open_library("libOpenCL.so.1", "OPENCL_LIBRARY");
    FUNCTIONS(LOAD)
    MAKERS(LOAD)
    choose_device();
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    succeeded(status, "a context");
    queue = clCreateCommandQueue(context, device, 0, &status);
    succeeded(status, "a queue");
    source = file_content(SOURCE, &size);
    program = clCreateProgramWithSource(context, 1, (const char **)&source, &size, &status);
    succeeded(status, SOURCE);
    free(source);
    if (clBuildProgram(program, 1, &device, OPTIONS, NULL, NULL)) {
        static char log[2048];
        clGetProgramBuildInfo(program, device, BUILD_LOG, sizeof log - 1, log, NULL);
        stop(SOURCE " does not compile", log);
    }
}

static void allocate_buffer(int index)
{
    int32_t status;
    memories[index] = clCreateBuffer(context, READ_WRITE, bytes_of(index), NULL, &status);
    succeeded(status, abouts[index].name);
}

static void write_buffer(int index, const void *content)
{
    succeeded(clEnqueueWriteBuffer(queue, memories[index], 1, 0, bytes_of(index), content, 0, NULL, NULL),
              abouts[index].name);
}

static void read_buffer(int index, void *content)
{
    succeeded(clEnqueueReadBuffer(queue, memories[index], 1, 0, bytes_of(index), content, 0, NULL, NULL),
              abouts[index].name);
}

static void prepare_launches(void)
{
    const handle none = NULL;
    for (int i = 0; i < LAUNCHES; i++) {
        const struct launch *launch = &launches[i];
        int32_t status;
        kernels[i] = clCreateKernel(program, launch->entry, &status);
        succeeded(status, launch->entry);
        for (uint32_t j = 0; j < launch->count; j++) {
            const struct argument *argument = &launch->arguments[j];
            switch (argument->kind) {
            case ADDRESS: status = clSetKernelArg(kernels[i], j, sizeof(handle), &memories[argument->buffer]); break;
            case NUMBER: status = clSetKernelArg(kernels[i], j, argument->bytes, argument->number); break;
            case LOCAL_MEMORY: status = clSetKernelArg(kernels[i], j, argument->bytes, NULL); break;
            default: status = clSetKernelArg(kernels[i], j, sizeof(handle), &none);
            }
            succeeded(status, "an argument");
        }
    }
}

/* Launches all entries in order; returns the seconds that they take. */
static double run(void)
{
    const double begin = now();
    for (int i = 0; i < LAUNCHES; i++)
        succeeded(clEnqueueNDRangeKernel(queue, kernels[i], launches[i].axes, NULL, launches[i].global,
                                         launches[i].local[0] ? launches[i].local : NULL, 0, NULL, NULL),
                  launches[i].entry);
    succeeded(clFinish(queue), "a run");
    return now() - begin;
}

static void close_device(void)
{
    for (int i = 0; i < LAUNCHES; i++)
        clReleaseKernel(kernels[i]);
    for (int i = 0; i < BUFFERS; i++)
        clReleaseMemObject(memories[i]);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}
