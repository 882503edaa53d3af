/* Runs a kernel on a device, compares its results with a reference, and times it.

   Compile:  cc -std=c99 -O2 -o check host.c -ldl -lm
   Run:      ./check [FOLDER]      FOLDER holds these files; the current one by default

   kernel.h holds all that belongs to the kernel: its buffers, its launches, its inputs and the reference. device.h opens
   the device and launches. Exit status: 0 right, 1 wrong, 2 not possible on this machine. */

#include "arrays.h"

#include <dlfcn.h>

enum kind { ADDRESS, TENSOR_MAP, NUMBER, LOCAL_MEMORY, NULL_ADDRESS };

struct buffer {            /* memory of the device */
    size_t stored;         /* elements of the array as the kernel takes it */
    int is_output;
    int is_restored;       /* whether the contents are written again before each run */
    void (*pack)(const void *array, void *packed);
};

struct tensor_map {        /* CUDA: a matrix in a buffer; sizes count elements, steps bytes */
    enum type type;
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

#include "kernel.h"

static size_t bytes_of(int index)
{
    return buffers[index].stored * size_of(abouts[index].type);
}

static void *library;    /* the driver's, which is loaded when the program runs */
static char device_name[256];

static void open_library(const char *name, const char *variable)
{
    const char *path = getenv(variable);
    char why[128];
    library = dlopen(path ? path : name, RTLD_NOW | RTLD_LOCAL);
    snprintf(why, sizeof why, "it is not installed; %s in the environment names another file", variable);
    if (library == NULL)
        stop(name, why);
}

static void load(void *function, const char *name)
{
    void *address = dlsym(library, name);
    if (address == NULL)
        stop("the driver lacks", name);
    memcpy(function, &address, sizeof address);
}

#define LOAD(name, parameters) load(&name, #name);

#include "device.h"

/* Restores what a run changed, and runs; returns the seconds of the run. */
static double run_again(void *contents)
{
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].is_restored)
            write_buffer(i, ((void *const *)contents)[i]);
    return run();
}

/* The array as the kernel takes it: itself, unless it is packed. */
static void *packed(int index, void *array)
{
    void *content;
    if (!buffers[index].pack)
        return array;
    content = memory(buffers[index].stored, size_of(abouts[index].type));
    buffers[index].pack(array, content);
    return content;
}

static void read_outputs(void **arrays, void **contents)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (!buffers[i].is_output)
            continue;
        if (buffers[i].is_restored) {
            contents[i] = memory(bytes_of(i), 1);
            memcpy(contents[i], arrays[i], bytes_of(i));
        }
        read_buffer(i, arrays[i]);
    }
}

static struct verdict check(void *const *arrays)
{
    struct verdict verdict = {0, 0};
    for (int i = 0; i < RULES; i++) {
        const struct rule *rule = &rules[i];
        const struct expected expected = expected_of(rule, REFERENCE, arrays);
        verdict = with_error(verdict, largest_error(rule, &expected, &abouts[rule->output], arrays[rule->output]),
                             rule->allowed);
        free(expected.numbers);
        free(expected.sizes);
    }
    return verdict;
}

int main(int count, char **words)
{
    void *arrays[BUFFERS], *contents[BUFFERS];
    int wrong;

    if (count > 1)
        folder = words[1];
    open_device();
    make_arrays(abouts, BUFFERS, arrays);
    for (int i = 0; i < BUFFERS; i++) {
        contents[i] = packed(i, arrays[i]);
        allocate_buffer(i);
        write_buffer(i, contents[i]);
    }
    prepare_launches();
    run();
    read_outputs(arrays, contents);
    wrong = report(NAME, device_name, check(arrays), RULES, CHECKED, run_again, contents);
    close_device();
    for (int i = 0; i < BUFFERS; i++) {
        if (contents[i] != arrays[i])
            free(contents[i]);
        free(arrays[i]);
    }
    return wrong;
}
