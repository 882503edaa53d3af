/* The functions of ${library}.h. */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
${headers}#ifdef _OPENMP
#include <omp.h>
#endif
#include "${library}.h"

typedef void entry(const void *, const void *, const void *, void *, void *, const int64_t *, int64_t, int64_t);

struct phase { entry *run; int64_t tasks, runs; };

enum { ALL = -1 };    /* in place of a phase */

${supported}
/* A share of a phase: its part of every run of the tasks. */
static void run_share(const struct phase *phase, const void *const operands[3], void *y, void *workspace,
                      const int64_t *arguments, int64_t index, int64_t shares)
{
    const int64_t tasks = phase->tasks / phase->runs, begin = tasks * index / shares;
    const int64_t end = tasks * (index + 1) / shares;
    for (int64_t first = 0; first < phase->tasks; first += tasks)
        phase->run(operands[0], operands[1], operands[2], y, workspace, arguments, first + begin, first + end);
}

/* All phases, on up to `shares` of OpenMP's threads where the compiler has it, else on this one. */
static void run_phases(const struct phase *phases, int count, const void *const operands[3], void *y, void *workspace,
                       const int64_t *arguments, int shares)
{
#ifdef _OPENMP
    const int threads = omp_get_max_threads() < shares ? omp_get_max_threads() : shares;
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        for (int phase = 0; phase < count; phase++) {
            for (int index = omp_get_thread_num(); index < shares; index += omp_get_num_threads())
                run_share(phases + phase, operands, y, workspace, arguments, index, shares);
#pragma omp barrier
        }
        return;
    }
#endif
    (void)shares;
    for (int phase = 0; phase < count; phase++)
        run_share(phases + phase, operands, y, workspace, arguments, 0, 1);
}

static void *aligned(size_t bytes)    /* memory that begins at a cache line */
{
    void *memory = NULL;
    return posix_memalign(&memory, 64, bytes ? bytes : 64) ? NULL : memory;
}

const char *${library}_error(int code)
{
    static const char *const texts[] = {"it ran", "this CPU lacks ${needs}, for which the kernel was made",
                                        "the memory for packed constants or the workspace cannot be allocated",
                                        "there is no such phase or share"};
    return code >= 0 && code < 4 ? texts[code] : "unknown code";
}
${kernels}