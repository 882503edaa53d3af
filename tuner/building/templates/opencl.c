typedef void *handle;
typedef handle address;    /* a cl_mem */

#define FUNCTIONS(each) \
    each(clGetPlatformIDs, (uint32_t, handle *, uint32_t *)) \
    each(clGetDeviceIDs, (handle, uint64_t, uint32_t, handle *, uint32_t *)) \
    each(clGetDeviceInfo, (handle, uint32_t, size_t, void *, size_t *)) \
    each(clGetCommandQueueInfo, (handle, uint32_t, size_t, void *, size_t *)) \
    each(clGetProgramBuildInfo, (handle, handle, uint32_t, size_t, void *, size_t *)) \
    each(clBuildProgram, (handle, uint32_t, const handle *, const char *, void *, void *)) \
    each(clEnqueueWriteBuffer, (handle, handle, uint32_t, size_t, size_t, const void *, uint32_t, void *, void *)) \
    each(clEnqueueReadBuffer, (handle, handle, uint32_t, size_t, size_t, void *, uint32_t, void *, void *)) \
    each(clSetKernelArg, (handle, uint32_t, size_t, const void *)) \
    each(clEnqueueNDRangeKernel, (handle, handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, \
                                  void *, void *)) \
    each(clFinish, (handle)) \
    each(clRetainCommandQueue, (handle)) \
    each(clReleaseMemObject, (handle)) \
    each(clReleaseKernel, (handle)) \
    each(clReleaseProgram, (handle)) \
    each(clReleaseCommandQueue, (handle)) \
    each(clReleaseContext, (handle))
#define MAKERS(each) \
    each(clCreateContext, (const intptr_t *, uint32_t, const handle *, void *, void *, int32_t *)) \
    each(clCreateCommandQueue, (handle, handle, uint64_t, int32_t *)) \
    each(clCreateProgramWithSource, (handle, uint32_t, const char *const *, const size_t *, int32_t *)) \
    each(clCreateKernel, (handle, const char *, int32_t *)) \
    each(clCreateBuffer, (handle, uint64_t, size_t, void *, int32_t *))
#define MEMBER(name, parameters) int32_t (*name) parameters;
#define MAKER(name, parameters) handle (*name) parameters;

enum { ANY_DEVICE = -1, READ_WRITE = 1, OUT_OF_ORDER = 1, DEVICE_NAME = 0x102B, QUEUE_CONTEXT = 0x1090,
       QUEUE_DEVICE, QUEUE_PROPERTIES = 0x1093, BUILD_LOG = 0x1183, MOST_DEVICES = 32 };

struct driver {
    FUNCTIONS(MEMBER)
    MAKERS(MAKER)
    void *library;
    handle context, queue, program, entries[LAUNCHES];
    char device_name[256], why[2048];
};

static int refused(struct driver *driver, int32_t status, const char *what)
{
    char why[64];
    snprintf(why, sizeof why, "OpenCL's error %d", (int)status);
    return status ? failed(driver, what, why) : 0;
}

/* The device that the kernel was chosen for, by its name, or else the first one; NULL: there is none. */
static handle choose_device(struct driver *driver)
{
    const char *wanted = getenv("OPENCL_DEVICE"), *part = wanted ? wanted : DEVICE_MODEL;
    handle platforms[MOST_DEVICES], devices[MOST_DEVICES], first = NULL;
    uint32_t platform_count = 0, count;
    if (driver->clGetPlatformIDs(MOST_DEVICES, platforms, &platform_count) || !platform_count) {
        failed(driver, "OpenCL", "there is no platform; install an OpenCL driver");
        return NULL;
    }
    for (uint32_t i = 0; i < platform_count && i < MOST_DEVICES; i++) {
        count = 0;
        if (driver->clGetDeviceIDs(platforms[i], (uint64_t)(uint32_t)ANY_DEVICE, MOST_DEVICES, devices, &count))
            continue;
        for (uint32_t j = 0; j < count && j < MOST_DEVICES; j++) {
            char name[256] = "";
            driver->clGetDeviceInfo(devices[j], DEVICE_NAME, sizeof name - 1, name, NULL);
            if (strstr(name, part))
                return devices[j];
            first = first ? first : devices[j];
        }
    }
    if (first == NULL || wanted)
        failed(driver, "OpenCL", wanted ? "no device has OPENCL_DEVICE in its name" : "there is no device");
    return wanted ? NULL : first;
}

/* A queue of its own, on a context of its own. */
static int open_queue(struct driver *driver)
{
    handle device = choose_device(driver), context;
    int32_t status;
    if (device == NULL)
        return 1;
    context = driver->clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    if (refused(driver, status, "a context"))
        return 1;
    driver->queue = driver->clCreateCommandQueue(context, device, 0, &status);
    driver->clReleaseContext(context);    /* the queue keeps it */
    return refused(driver, status, "a queue");
}

static int open_device(struct driver *driver, handle queue)
{
    handle device = NULL;
    uint64_t properties = 0;
    int32_t status;
    driver->library = open_library(driver, "clGetPlatformIDs", "libOpenCL.so.1", "OPENCL_LIBRARY");
    if (driver->library == NULL FUNCTIONS(LOAD) MAKERS(LOAD))
        return 1;
    if (queue ? refused(driver, driver->clRetainCommandQueue(queue), "the queue") : open_queue(driver))
        return 1;
    queue = driver->queue = queue ? queue : driver->queue;
    if (refused(driver, driver->clGetCommandQueueInfo(queue, QUEUE_CONTEXT, sizeof(handle), &driver->context, NULL)
                || driver->clGetCommandQueueInfo(queue, QUEUE_DEVICE, sizeof(handle), &device, NULL)
                || driver->clGetCommandQueueInfo(queue, QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
                "the queue"))
        return 1;
    if (properties & OUT_OF_ORDER)
        return failed(driver, "the queue", "it is out of order; give one that is in order");
    driver->clGetDeviceInfo(device, DEVICE_NAME, sizeof driver->device_name - 1, driver->device_name, NULL);
    driver->program = driver->clCreateProgramWithSource(driver->context, LINES, lines_of_source, NULL, &status);
    if (refused(driver, status, "the source"))
        return 1;
    if (driver->clBuildProgram(driver->program, 1, &device, OPTIONS, NULL, NULL)) {
        char log[1024] = "";
        driver->clGetProgramBuildInfo(driver->program, device, BUILD_LOG, sizeof log - 1, log, NULL);
        return failed(driver, "the source does not compile", log);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        driver->entries[i] = driver->clCreateKernel(driver->program, launches[i].entry, &status);
        if (refused(driver, status, launches[i].entry))
            return 1;
    }
    return 0;
}

static int allocate(struct driver *driver, const struct buffer *buffer, address *memory)
{
    int32_t status;
    *memory = driver->clCreateBuffer(driver->context, READ_WRITE, buffer->bytes, NULL, &status);
    return refused(driver, status, buffer->name);
}

static int write_memory(struct driver *driver, const struct buffer *buffer, address memory, const void *content)
{
    return refused(driver, driver->clEnqueueWriteBuffer(driver->queue, memory, 1, 0, buffer->bytes, content, 0, NULL,
                                                        NULL), buffer->name);
}

static int read_memory(struct driver *driver, const struct buffer *buffer, address memory, void *content)
{
    return refused(driver, driver->clEnqueueReadBuffer(driver->queue, memory, 1, 0, buffer->bytes, content, 0, NULL,
                                                       NULL), buffer->name);
}

static int enqueue(struct driver *driver, int index, const address *memories)
{
    const struct launch *launch = &launches[index];
    const handle none = NULL, entry = driver->entries[index];
    for (uint32_t i = 0; i < launch->count; i++) {
        const struct argument *argument = &launch->arguments[i];
        int32_t status;
        switch (argument->kind) {
        case ADDRESS: status = driver->clSetKernelArg(entry, i, sizeof(handle), &memories[argument->buffer]); break;
        case NUMBER: status = driver->clSetKernelArg(entry, i, argument->bytes, argument->number); break;
        case LOCAL_MEMORY: status = driver->clSetKernelArg(entry, i, argument->bytes, NULL); break;
        default: status = driver->clSetKernelArg(entry, i, sizeof(handle), &none);
        }
        if (refused(driver, status, "an argument"))
            return 1;
    }
    return refused(driver, driver->clEnqueueNDRangeKernel(driver->queue, entry, launch->axes, NULL, launch->global,
                                                          launch->local[0] ? launch->local : NULL, 0, NULL, NULL),
                   launch->entry);
}

static int finish(struct driver *driver)
{
    return refused(driver, driver->clFinish(driver->queue), "a run");
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int begin_timing(struct driver *driver, double *begin)
{
    const int code = finish(driver);
    *begin = now();
    return code;
}

static double end_timing(struct driver *driver, double begin)
{
    return finish(driver) ? -1 : now() - begin;
}

static void close_device(struct driver *driver, const address *memories)
{
    for (int i = 0; i < BUFFERS; i++)
        if (memories[i])
            driver->clReleaseMemObject(memories[i]);
    for (int i = 0; i < LAUNCHES; i++)
        if (driver->entries[i])
            driver->clReleaseKernel(driver->entries[i]);
    if (driver->program)
        driver->clReleaseProgram(driver->program);
    if (driver->queue)
        driver->clReleaseCommandQueue(driver->queue);
}
