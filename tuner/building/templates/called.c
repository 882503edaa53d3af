/* ${problem}: the functions of ${name}.h. Programs that are linked with them need -ldl. */

#define _POSIX_C_SOURCE 200809L    /* before all headers */

#include "${name}.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { ADDRESS, TENSOR_MAP, NUMBER, LOCAL_MEMORY, NULL_ADDRESS };

struct tensor_map {        /* CUDA: a matrix in a buffer; sizes count elements, steps bytes */
    enum { FP16 = 6, FP32 = 7, BF16 = 9 } type;
    unsigned axes;
    uint64_t sizes[5], steps[5];
    uint32_t box[5];
    unsigned swizzle;      /* bytes */
};

struct argument {
    enum kind kind;
    int buffer;                     /* of an address or a tensor map */
    size_t bytes;                   /* of a number or of local memory */
    unsigned char number[8];        /* its bytes, the lowest first, then unused ones */
    const struct tensor_map *map;
};

struct launch {
    const char *entry;
    unsigned axes;
    size_t global[3], local[3];     /* work-items, and work-items of a group; a first 0: the driver chooses */
    unsigned shared, cluster;       /* CUDA: bytes of dynamic shared memory, blocks of a cluster */
    unsigned count;
    const struct argument *arguments;
};

struct buffer {                     /* an operand, an output or a workspace */
    const char *name;
    size_t bytes;                   /* as the kernel takes it */
    enum { READ, WRITTEN, CHANGED, WORKSPACE } role;
    void (*pack)(const void *array, void *packed);
};

${tables}
struct driver;

static int failed(struct driver *driver, const char *what, const char *why);
static int load(struct driver *driver, void *function, const char *name);

#define LOAD(name, parameters) || load(driver, &driver->name, #name)

/* The library that the program is linked with, if it has this function; else the file of this name, which a variable of
   the environment replaces. */
static void *open_library(struct driver *driver, const char *function, const char *name, const char *variable)
{
    void *library = dlopen(NULL, RTLD_NOW);
    const char *path = getenv(variable);
    char why[128];
    if (library && dlsym(library, function))
        return library;
    library = dlopen(path ? path : name, RTLD_NOW | RTLD_LOCAL);
    snprintf(why, sizeof why, "it is not installed; %s in the environment names another file", variable);
    if (library == NULL)
        failed(driver, name, why);
    return library;
}

${driver}
struct ${name} {
    struct driver driver;
    address kept[BUFFERS];    /* memory of the device; 0: not yet */
    int is_whole;             /* whether all of it could be made */
};

static int failed(struct driver *driver, const char *what, const char *why)
{
    snprintf(driver->why, sizeof driver->why, "%s: %s", what, why);
    return 1;
}

static int load(struct driver *driver, void *function, const char *name)
{
    void *symbol = dlsym(driver->library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol ? 0 : failed(driver, "the driver lacks", name);
}

static int keep(struct ${name} *kernel, int index)
{
    return kernel->kept[index] ? 0 : allocate(&kernel->driver, &buffers[index], &kernel->kept[index]);
}

/* Copies an array to the memory that is kept for it, in the kernel's order. */
static int copy_in(struct ${name} *kernel, int index, const void *array)
{
    const struct buffer *buffer = &buffers[index];
    void *packed = NULL;
    int code;
    if (array == NULL)
        return failed(&kernel->driver, buffer->name, "it is NULL");
    if (keep(kernel, index))
        return 1;
    if (buffer->pack) {
        packed = malloc(buffer->bytes);
        if (packed == NULL)
            return failed(&kernel->driver, buffer->name, "there is no memory to pack it");
        buffer->pack(array, packed);
    }
    code = write_memory(&kernel->driver, buffer, kernel->kept[index], packed ? packed : array);
    free(packed);
    return code;
}

/* Launches all entries in order, on the given memory where it is not 0. */
static int launch_all(struct ${name} *kernel, const address *given)
{
    address memories[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        memories[i] = i < ARRAYS && given[i] ? given[i] : kernel->kept[i];
    for (int i = 0; i < LAUNCHES; i++) {
        for (unsigned j = 0; j < launches[i].count; j++) {
            const struct argument *argument = &launches[i].arguments[j];
            if (argument->kind <= TENSOR_MAP && !memories[argument->buffer])
                return failed(&kernel->driver, buffers[argument->buffer].name, argument->buffer == CONSTANT
                              ? "it was not packed; call ${name}_pack before" : "no memory is given");
        }
        if (enqueue(&kernel->driver, i, memories))
            return 1;
    }
    return 0;
}

struct ${name} *${name}_create(${create_parameters})
{
    struct ${name} *kernel = calloc(1, sizeof *kernel);
    int code = kernel ? open_device(&kernel->driver, ${create_arguments}) : 1;
    for (int i = ARRAYS; i < BUFFERS && !code; i++)
        code = keep(kernel, i);
    if (kernel)
        kernel->is_whole = !code;
    return kernel;
}

${pack}int ${name}(struct ${name} *kernel, ${plain})
{
    static const address kept[ARRAYS];    /* none is given */
    const void *const given[] = {${names}};
    int code = !kernel || !kernel->is_whole;
    for (int i = 0; i < ARRAYS && !code; i++)
        if (given[i] && buffers[i].role == WRITTEN)
            code = keep(kernel, i);
        else if (given[i] || i != CONSTANT)
            code = copy_in(kernel, i, given[i]);
    code = code || launch_all(kernel, kept) || finish(&kernel->driver);
    for (int i = 0; i < ARRAYS && !code; i++)
        if (buffers[i].role != READ)
            code = read_memory(&kernel->driver, &buffers[i], kernel->kept[i], (void *)(uintptr_t)given[i]);
    return code;
}

int ${name}_run(struct ${name} *kernel, ${memories})
{
    const address given[] = {${given}};
    return !kernel || !kernel->is_whole || launch_all(kernel, given);
}

double ${name}_seconds(struct ${name} *kernel)
{
    double begin;
    if (!kernel || !kernel->is_whole || begin_timing(&kernel->driver, &begin)
        || ${name}_run(kernel, ${nothing}))
        return -1;
    return end_timing(&kernel->driver, begin);
}

const char *${name}_device(const struct ${name} *kernel)
{
    return kernel ? kernel->driver.device_name : "";
}

const char *${name}_error(const struct ${name} *kernel)
{
    return kernel ? kernel->driver.why : "there is no memory for the kernel";
}

void ${name}_free(struct ${name} *kernel)
{
    if (kernel == NULL)
        return;
    close_device(&kernel->driver, kernel->kept);
    free(kernel);
}
