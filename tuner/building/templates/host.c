/* Runs a kernel on a device, compares its results with a reference, and times it.

   Compile:  cc -std=c99 -O2 -o check host.c -ldl -lm
   Run:      ./check [FOLDER]      FOLDER holds these files; the current one by default

   kernel.h holds all that belongs to the kernel: its buffers, its launches, its inputs and the reference. device.h opens
   the device and launches. Exit status: 0 right, 1 wrong, 2 not possible on this machine. */

#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FP16, BF16, FP32, FP64 };
enum role { INPUT, OUTPUT, WORKSPACE };
enum kind { ADDRESS, TENSOR_MAP, NUMBER, LOCAL_MEMORY, NULL_ADDRESS };

union number {
    int8_t int8; uint8_t uint8; int16_t int16; uint16_t uint16; int32_t int32; uint32_t uint32;
    int64_t int64; uint64_t uint64; float fp32; double fp64;
};

struct content {           /* what an array holds before the check */
    enum { POISON, DRAWN, INDEX, FILE_CONTENT, COPY } kind;
    int64_t number;        /* the seed of what is drawn, the byte of poison, the array that is copied */
    double low, high;      /* of what is drawn; both are drawn, too, where the elements are whole numbers */
    const char *file;
};

struct buffer {            /* memory of the device */
    const char *name;
    enum role role;
    enum type type;
    size_t count, stored;  /* elements of the array, and of the array as the kernel takes it */
    struct content content;
    int restored;          /* whether the contents are written again before each run */
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
    union number number;
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

struct verdict { double error, allowed; };

enum { RUNS = 20 };

static const char *folder = ".";

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static void *memory(size_t count, size_t size)
{
    void *content = count > SIZE_MAX / size ? NULL : malloc(count * size);
    if (content == NULL)
        stop("host memory", "an array does not fit");
    return content;
}

/* A file of the folder, with a 0 behind it; a size of 0 reads all of it. */
static void *file_content(const char *name, size_t *size)
{
    char path[4096], *content;
    long end;
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    end = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    if (end < 0 || fseek(file, 0, SEEK_SET))
        stop(path, "cannot be read; give the folder of the files as the first word");
    if (*size && *size != (size_t)end)
        stop(path, "has another size than it should");
    *size = (size_t)end;
    content = memory(*size + 1, 1);
    if (fread(content, 1, *size, file) != *size)
        stop(path, "cannot be read");
    fclose(file);
    content[*size] = 0;
    return content;
}

static size_t size_of(enum type type)
{
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return sizes[type];
}

static size_t bytes_of(const struct buffer *buffer)
{
    return buffer->stored * size_of(buffer->type);
}

static double from_half(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
        : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static double element(enum type type, const void *array, size_t index)
{
    float number;
    uint32_t bits;
    switch (type) {
    case INT8: return ((const int8_t *)array)[index];
    case UINT8: return ((const uint8_t *)array)[index];
    case INT16: return ((const int16_t *)array)[index];
    case UINT16: return ((const uint16_t *)array)[index];
    case INT32: return ((const int32_t *)array)[index];
    case UINT32: return ((const uint32_t *)array)[index];
    case INT64: return (double)((const int64_t *)array)[index];
    case UINT64: return (double)((const uint64_t *)array)[index];
    case FP16: return from_half(((const uint16_t *)array)[index]);
    case BF16:
        bits = (uint32_t)((const uint16_t *)array)[index] << 16;
        memcpy(&number, &bits, sizeof number);
        return number;
    case FP32: return ((const float *)array)[index];
    default: return ((const double *)array)[index];
    }
}

static unsigned to_half(double number)
{
    const double size = fabs(number);
    const unsigned sign = number < 0 ? 0x8000 : 0;
    int exponent;
    double bits;
    frexp(size, &exponent);
    exponent = size > 0 && exponent > -13 ? exponent - 11 : -24;
    bits = 1024 * (exponent + 24) + nearbyint(ldexp(size, -exponent));
    return sign | (bits < 31744 ? (unsigned)bits : 31744);
}

static unsigned to_bf16(double number)
{
    const float rounded = (float)number;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static void set_element(enum type type, void *array, size_t index, double number)
{
    switch (type) {
    case INT8: ((int8_t *)array)[index] = (int8_t)number; break;
    case UINT8: ((uint8_t *)array)[index] = (uint8_t)number; break;
    case INT16: ((int16_t *)array)[index] = (int16_t)number; break;
    case UINT16: ((uint16_t *)array)[index] = (uint16_t)number; break;
    case INT32: ((int32_t *)array)[index] = (int32_t)number; break;
    case UINT32: ((uint32_t *)array)[index] = (uint32_t)number; break;
    case INT64: ((int64_t *)array)[index] = (int64_t)number; break;
    case UINT64: ((uint64_t *)array)[index] = (uint64_t)number; break;
    case FP16: ((uint16_t *)array)[index] = (uint16_t)to_half(number); break;
    case BF16: ((uint16_t *)array)[index] = (uint16_t)to_bf16(number); break;
    case FP32: ((float *)array)[index] = (float)number; break;
    default: ((double *)array)[index] = number;
    }
}

/* A number in 0..1 that seed and index determine (splitmix64). */
static double draw(int64_t seed, size_t index)
{
    uint64_t bits = (uint64_t)seed * 0xD1342543DE82EF95u + (index + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return (double)((bits ^ bits >> 31) >> 11) * 0x1p-53;
}

static void fill(const struct buffer *buffer, void *array)
{
    const struct content *content = &buffer->content;
    const int whole = buffer->type < FP16;
    const double width = content->high - content->low + whole;
    for (size_t i = 0; i < buffer->count; i++) {
        double number = width * draw(content->number, i);
        number += content->low;
        if (content->kind == INDEX)
            number = (double)i;
        set_element(buffer->type, array, i, whole ? floor(number) : number);
    }
}

/* The largest error of an array's elements, each divided by its size: that of `sizes`, or with one size that size, or
   without any the largest expected number. Element i * step should be expected[i]; a step of 0 compares the sum. */
static struct verdict compare(const struct buffer *buffer, const void *array, enum type type, const void *expected,
                              const double *sizes, size_t size_count, size_t count, size_t step, double allowed)
{
    struct verdict verdict = {0, 0};
    double largest = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(element(type, expected, i)));
    for (size_t i = 0; step == 0 && i < buffer->count; i++)
        if (isfinite(element(buffer->type, array, i)))
            sum += element(buffer->type, array, i);
    verdict.allowed = allowed;
    for (size_t i = 0; i < count; i++) {
        const double wanted = element(type, expected, i), found = step ? element(buffer->type, array, i * step) : sum;
        const double size = size_count == 0 ? largest : sizes[size_count == 1 ? 0 : i];
        double error = fabs(found - wanted) / (size > 0 ? size : 1);
        if (found == wanted || (isnan(found) && isnan(wanted)))
            error = 0;
        if (step && type == buffer->type && memcmp((const char *)array + i * step * size_of(type),
                                                   (const char *)expected + i * size_of(type), size_of(type)))
            error = fmax(error, 1e-300);    /* whole numbers of 64 bits that are equal as fractions */
        verdict.error = isnan(error) ? (double)INFINITY : fmax(verdict.error, error);
        if (isinf(verdict.error))
            break;
    }
    return verdict;
}

#include "kernel.h"
#include "device.h"

/* The contents of all arrays, as the operation has them and as the kernel takes them: the same but for packed ones. */
static void make_arrays(void **arrays, void **contents)
{
    for (int i = 0; i < BUFFERS; i++) {
        const struct buffer *buffer = &buffers[i];
        size_t size = buffer->count * size_of(buffer->type);
        if (buffer->content.kind == FILE_CONTENT) {
            arrays[i] = file_content(buffer->content.file, &size);
        } else {
            arrays[i] = memory(size, 1);
            if (buffer->content.kind == POISON)
                memset(arrays[i], (int)buffer->content.number, size);
            else if (buffer->content.kind == COPY)
                memcpy(arrays[i], arrays[buffer->content.number], size);
            else
                fill(buffer, arrays[i]);
        }
        contents[i] = arrays[i];
        if (buffer->pack) {
            contents[i] = memory(buffer->stored, size_of(buffer->type));
            buffer->pack(arrays[i], contents[i]);
        }
    }
}

static int by_size(const void *first, const void *second)
{
    const double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

static void restore(void *const *contents)
{
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].restored)
            write_buffer(i, contents[i]);
}

int main(int count, char **words)
{
    void *arrays[BUFFERS], *contents[BUFFERS];
    double times[RUNS];
    struct verdict verdict;
    int wrong;

    if (count > 1)
        folder = words[1];
    open_device();
    make_arrays(arrays, contents);
    for (int i = 0; i < BUFFERS; i++) {
        allocate_buffer(i);
        write_buffer(i, contents[i]);
    }
    prepare_launches();
    run();
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].role == OUTPUT) {
            if (buffers[i].restored) {
                contents[i] = memory(bytes_of(&buffers[i]), 1);
                memcpy(contents[i], arrays[i], bytes_of(&buffers[i]));
            }
            read_buffer(i, arrays[i]);
        }
    verdict = check(arrays);
    wrong = !(verdict.error <= verdict.allowed);
    printf("%s on %s: %s", NAME, device_name, !COMPARED ? "ran" : wrong ? "WRONG" : "right");
    if (COMPARED)
        printf(", largest error %.2e (allowed %.1e)", verdict.error, verdict.allowed);
    printf("%s", CHECKED);
    for (int i = 0; i < RUNS && !wrong; i++) {
        restore(contents);
        times[i] = run();
    }
    if (!wrong) {
        qsort(times, RUNS, sizeof times[0], by_size);
        printf(", median of %d runs %.1f us", RUNS, 5e5 * (times[RUNS / 2 - 1] + times[RUNS / 2]));
    }
    printf("\n");
    close_device();
    for (int i = 0; i < BUFFERS; i++) {
        if (contents[i] != arrays[i])
            free(contents[i]);
        free(arrays[i]);
    }
    return wrong;
}
