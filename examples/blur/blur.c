/* A box blur in two passes, and its measurement: prints {"seconds": [...], "error": ...} as JSON.
 *
 * Outside the image, pixels count as 0; every mean divides by the whole window.
 * Arguments: rows columns radius band. RUNNING_ACROSS, RUNNING_DOWN (0 or 1) and UNROLL are given when it is compiled. */

#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 5 };

static int least(int a, int b) { return a < b ? a : b; }

/* to[i] = sum of from[i - radius .. i + radius]; `from` has `radius` zeros before and after its `count` numbers. */
static void row_sums(const float *restrict from, float *restrict to, int count, int radius)
{
#if RUNNING_ACROSS
    float sum = 0.0f;
    for (int k = -radius; k < radius; k++)
        sum += from[k];
    for (int i = 0; i < count; i++) {
        sum += from[i + radius];
        to[i] = sum;
        sum -= from[i - radius];
    }
#else
    int i = 0;
    for (; i + UNROLL <= count; i += UNROLL) {
        float sums[UNROLL] = {0.0f};
        for (int k = -radius; k <= radius; k++)
            for (int u = 0; u < UNROLL; u++)
                sums[u] += from[i + u + k];
        for (int u = 0; u < UNROLL; u++)
            to[i + u] = sums[u];
    }
    for (; i < count; i++) {
        to[i] = 0.0f;
        for (int k = -radius; k <= radius; k++)
            to[i] += from[i + k];
    }
#endif
}

/* to[i] = share * the sum of the column i of `between` in the lines row .. row + 2 radius. `sums` keeps it. */
static void column_sums(const float *restrict between, float *restrict sums, float *restrict to, int row, int columns,
                        int line, int radius, float share)
{
    const int first = RUNNING_DOWN && row > 0 ? 2 * radius : 0;
    if (first == 0)
        memset(sums, 0, (size_t)columns * sizeof *sums);
    for (int k = first; k <= 2 * radius; k++)
        for (int i = 0; i < columns; i++)
            sums[i] += between[(row + k) * line + i];
    for (int i = 0; i < columns; i++)
        to[i] = sums[i] * share;
    if (RUNNING_DOWN)
        for (int i = 0; i < columns; i++)
            sums[i] -= between[row * line + i];
}

/* The means of all windows. `image` and `between` have `radius` zeros on all sides: (rows + 2 radius) lines of `line`;
 * `sums` has room for `columns` numbers. */
static void blur(const float *image, float *between, float *sums, float *result, int rows, int columns, int radius,
                 int band)
{
    const int line = columns + 2 * radius;
    const float share = 1.0f / (float)((2 * radius + 1) * (2 * radius + 1));
    int done = 0; /* rows of `between` that are summed */
    for (int first = 0; first < rows; first += band) {
        const int last = least(first + band, rows);
        for (; done < least(last + radius, rows); done++)
            row_sums(image + (done + radius) * line + radius, between + (done + radius) * line, columns, radius);
        for (int row = first; row < last; row++)
            column_sums(between, sums, result + row * columns, row, columns, line, radius, share);
    }
}

/* The largest difference from means that are computed in double, at some pixels, divided by the largest mean. */
static double error_of(const float *image, const float *result, int rows, int columns, int radius)
{
    const int line = columns + 2 * radius, window = 2 * radius + 1;
    double error = 0.0, largest = 0.0;
    for (int row = 0; row < rows; row += 1 + rows / 29)
        for (int column = 0; column < columns; column += 1 + columns / 31) {
            double sum = 0.0;
            for (int i = 0; i < window; i++)
                for (int j = 0; j < window; j++)
                    sum += image[(row + i) * line + column + j];
            sum /= window * window;
            error = fmax(error, fabs(sum - result[row * columns + column]));
            largest = fmax(largest, fabs(sum));
        }
    return error / largest;
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "usage: blur rows columns radius band\n");
        return 2;
    }
    const int rows = atoi(arguments[1]), columns = atoi(arguments[2]), radius = atoi(arguments[3]);
    const int band = atoi(arguments[4]), line = columns + 2 * radius;
    const size_t padded = (size_t)(rows + 2 * radius) * (size_t)line;
    float *image = calloc(padded, sizeof *image), *between = calloc(padded, sizeof *between);
    float *result = malloc((size_t)rows * (size_t)columns * sizeof *result);
    float *sums = malloc((size_t)columns * sizeof *sums);
    if (!image || !between || !result || !sums) {
        fprintf(stderr, "not enough memory\n");
        return 1;
    }
    unsigned state = 1;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            state = state * 1664525u + 1013904223u; /* a linear congruential generator: the same pixels in every run */
            image[(row + radius) * line + column + radius] = (float)(state >> 8) / 16777216.0f;
        }
    blur(image, between, sums, result, rows, columns, radius, band); /* warm-up */
    printf("{\"seconds\": [");
    for (int sample = 0; sample < SAMPLES; sample++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        blur(image, between, sums, result, rows, columns, radius, band);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%s%.9f", sample ? ", " : "",
               (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    }
    printf("], \"error\": %.3e}\n", error_of(image, result, rows, columns, radius));
    free(image);
    free(between);
    free(result);
    free(sums);
    return 0;
}
