/* Arrays of a check: what they hold before a run, how far outputs are from what they should be, and the line that says
   so. It stands before all other headers. */

#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Element types, whole ones first, that C has itself, and all of them. */
#define C_TYPES(each) \
    each(INT8, int8_t) each(UINT8, uint8_t) each(INT16, int16_t) each(UINT16, uint16_t) each(INT32, int32_t) \
    each(UINT32, uint32_t) each(INT64, int64_t) each(UINT64, uint64_t) each(FP32, float) each(FP64, double)
#define TYPES(each) C_TYPES(each) each(FP16, uint16_t) each(BF16, uint16_t)
#define NAMED(type, stored) type,
#define SIZE(type, stored) sizeof(stored),
#define READ(type, stored) case type: return (double)((const stored *)elements)[index];
#define WRITE(type, stored) case type: ((stored *)elements)[index] = (stored)number; break;

enum type { TYPES(NAMED) };

struct content {           /* what an array holds before the check */
    enum { POISON, DRAWN, INDEX, FILE_CONTENT, COPY } kind;
    int64_t number;        /* the seed of what is drawn, the byte of poison, the array that is copied */
    double low, high;      /* of what is drawn; both are drawn, too, where the elements are whole numbers */
    const char *file;
};

struct array {
    const char *name;
    enum type type;
    size_t count;          /* elements */
    struct content content;
};

struct rule {              /* how an output is compared */
    int output;            /* the array's number */
    size_t step, count;    /* element i * step should be number i of `count`; a step of 0 compares the sum */
    double allowed;        /* the largest error */
    enum type type;        /* of the expected numbers */
    const char *expected, *sizes;    /* files; NULL where the reference computes the numbers */
};

struct expected {
    void *numbers;
    double *sizes;         /* errors are relative to them: one for each number, one for all, or none */
    size_t size_count;
};

struct verdict { double error, allowed; };

typedef double reference(void *const *arrays, int64_t place);    /* an element of the output, by the definition */

enum { RUNS = 20 };

static const char *folder = ".";    /* of the files */

static inline void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static inline void *memory(size_t count, size_t size)    /* at the beginning of a cache line */
{
    void *content = NULL;
    if (count > SIZE_MAX / size || posix_memalign(&content, 64, count ? count * size : 64))
        stop("host memory", "an array does not fit");
    return content;
}

/* A file of the folder, with a 0 behind it; a size of 0 reads all of it. */
static inline void *file_content(const char *name, size_t *size)
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

static inline size_t size_of(enum type type)
{
    static const size_t sizes[] = {TYPES(SIZE)};
    return sizes[type];
}

static inline double from_fp16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
        : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static inline double from_bf16(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint16_t to_fp16(double number)
{
    const double size = fabs(number);
    const int sign = number < 0 ? 0x8000 : 0;
    int exponent;
    double bits;
    frexp(size, &exponent);
    exponent = size > 0 && exponent > -13 ? exponent - 11 : -24;
    bits = 1024 * (exponent + 24) + nearbyint(ldexp(size, -exponent));
    return (uint16_t)(sign | (bits < 31744 ? (int)bits : 31744));
}

static inline uint16_t to_bf16(double number)
{
    const float rounded = (float)number;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline double element(enum type type, const void *elements, size_t index)
{
    switch (type) {
    C_TYPES(READ)
    case FP16: return from_fp16(((const uint16_t *)elements)[index]);
    case BF16: return from_bf16(((const uint16_t *)elements)[index]);
    }
    return 0;
}

static inline void set_element(enum type type, void *elements, size_t index, double number)
{
    switch (type) {
    C_TYPES(WRITE)
    case FP16: ((uint16_t *)elements)[index] = to_fp16(number); break;
    case BF16: ((uint16_t *)elements)[index] = to_bf16(number); break;
    }
}

/* A number in 0..1 that seed and index determine: those of SplitMix64 [G. Steele, D. Lea, C. Flood, "Fast splittable
   pseudorandom number generators", 2014]. */
static inline double draw(int64_t seed, size_t index)
{
    uint64_t bits = (uint64_t)seed * 0xD1342543DE82EF95u + (index + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return (double)((bits ^ bits >> 31) >> 11) * 0x1p-53;
}

static inline void fill(const struct array *array, void *elements)
{
    const struct content *content = &array->content;
    const int whole = array->type <= UINT64;
    const double width = content->high - content->low + whole;
    for (size_t i = 0; i < array->count; i++) {
        double number = width * draw(content->number, i);
        number += content->low;
        if (content->kind == INDEX)
            number = (double)i;
        set_element(array->type, elements, i, whole ? floor(number) : number);
    }
}

/* The contents of all arrays before the check; copies follow what they are copies of. */
static inline void make_arrays(const struct array *abouts, int array_count, void **arrays)
{
    for (int i = 0; i < array_count; i++) {
        const struct content *content = &abouts[i].content;
        size_t size = abouts[i].count * size_of(abouts[i].type);
        arrays[i] = content->kind == FILE_CONTENT ? file_content(content->file, &size) : memory(size, 1);
        if (content->kind == POISON)
            memset(arrays[i], (int)content->number, size);
        else if (content->kind == COPY)
            memcpy(arrays[i], arrays[content->number], size);
        else if (content->kind != FILE_CONTENT)
            fill(&abouts[i], arrays[i]);
    }
}

static inline struct expected expected_of(const struct rule *rule, reference *one, void *const *arrays)
{
    struct expected expected = {NULL, NULL, 0};
    size_t size = rule->count * size_of(rule->type);
    if (rule->expected) {
        expected.numbers = file_content(rule->expected, &size);
        size = 0;
        expected.sizes = file_content(rule->sizes, &size);
        expected.size_count = size / sizeof *expected.sizes;
        return expected;
    }
    expected.numbers = memory(size, 1);
    for (size_t i = 0; i < rule->count; i++)
        set_element(rule->type, expected.numbers, i, one(arrays, (int64_t)(i * rule->step)));
    return expected;
}

/* The largest error of an output's elements, each divided by its size: without sizes the largest expected number. */
static inline double largest_error(const struct rule *rule, const struct expected *expected, const struct array *about,
                                   const void *output)
{
    double largest = 0, sum = 0, worst = 0;
    for (size_t i = 0; i < rule->count; i++)
        largest = fmax(largest, fabs(element(rule->type, expected->numbers, i)));
    for (size_t i = 0; rule->step == 0 && i < about->count; i++)
        if (isfinite(element(about->type, output, i)))
            sum += element(about->type, output, i);
    for (size_t i = 0; i < rule->count; i++) {
        const size_t place = i * rule->step, bytes = size_of(rule->type);
        const double wanted = element(rule->type, expected->numbers, i);
        const double found = rule->step ? element(about->type, output, place) : sum;
        const double size = expected->size_count ? expected->sizes[expected->size_count == 1 ? 0 : i] : largest;
        double error = fabs(found - wanted) / (size > 0 ? size : 1);
        if (found == wanted || (isnan(found) && isnan(wanted)))
            error = 0;
        if (rule->step && rule->type == about->type && memcmp((const char *)output + place * bytes,
                                                              (const char *)expected->numbers + i * bytes, bytes))
            error = fmax(error, 1e-300);    /* whole numbers of 64 bits that are equal as fractions */
        if (!(error < HUGE_VAL))
            return HUGE_VAL;
        worst = fmax(worst, error);
    }
    return worst;
}

static inline int is_right(struct verdict verdict)
{
    return verdict.error <= verdict.allowed;
}

/* The verdict with one more error: that of the first wrong output, or else of the worst one. */
static inline struct verdict with_error(struct verdict verdict, double error, double allowed)
{
    const struct verdict other = {error, allowed};
    return is_right(verdict) && (!is_right(other) || error >= verdict.error) ? other : verdict;
}

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline int by_size(const void *first, const void *second)
{
    const double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* Prints the line of a check, for right results with the median and the least of the seconds that `run` returns; returns
   whether the results are wrong. Without an allowed error nothing was compared. */
static inline int report(const char *name, const char *device, struct verdict verdict, int is_compared,
                         const char *remark, double (*run)(void *), void *kernel)
{
    double times[RUNS];
    printf("%s on %s: %s", name, device, !is_compared ? "ran" : is_right(verdict) ? "right" : "WRONG");
    if (is_compared)
        printf(", largest error %.2e (allowed %.1e)", verdict.error, verdict.allowed);
    printf("%s", remark);
    if (is_right(verdict)) {
        for (int i = 0; i < RUNS; i++)
            times[i] = run(kernel);
        qsort(times, RUNS, sizeof times[0], by_size);
        printf(", median of %d runs %.1f us, least %.1f us", RUNS, 5e5 * (times[RUNS / 2 - 1] + times[RUNS / 2]),
               1e6 * times[0]);
    }
    printf("\n");
    return !is_right(verdict);
}
