/* Runs every kernel of the library on inputs from a seed, by each of its three functions, compares its outputs with a
   reference, and times it: a line each.

   check.h holds the kernels with their arrays and references. Exit status: 0 all are right, 1 one is wrong, 2 this
   machine cannot run them. */

#include "arrays.h"

enum way { PLAIN, RUN, SHARES, WAYS };    /* which function runs; the plain one is preceded by the packing */

struct kernel {
    const char *name, *remark;
    const struct array *abouts;    /* the operands, and the output behind them */
    struct rule rule;
    size_t packed, workspace;      /* bytes */
    reference *reference;
    int (*run)(enum way way, void *const *arrays, void *packed, void *workspace);    /* returns the library's code */
};

#include "check.h"

struct call {
    const struct kernel *kernel;
    void *arrays[MOST_ARRAYS], *packed, *workspace;
};

static double seconds(const struct call *call, enum way way)
{
    const double begin = now();
    const int code = call->kernel->run(way, call->arrays, call->packed, call->workspace);
    const double end = now();
    if (code)
        stop(call->kernel->name, error_text(code));
    return end - begin;
}

static double run_again(void *call)
{
    return seconds(call, RUN);
}

static int check(const struct kernel *kernel)
{
    const int y = kernel->rule.output;
    const struct array *about = &kernel->abouts[y];
    struct call call = {kernel, {NULL}, memory(kernel->packed, 1), memory(kernel->workspace, 1)};
    struct verdict verdict = {0, 0};
    struct expected expected;
    int wrong;

    make_arrays(kernel->abouts, y + 1, call.arrays);
    expected = expected_of(&kernel->rule, kernel->reference, call.arrays);
    for (int way = PLAIN; way < WAYS; way++) {
        memset(call.arrays[y], (int)about->content.number, about->count * size_of(about->type));
        seconds(&call, (enum way)way);
        verdict = with_error(verdict, largest_error(&kernel->rule, &expected, about, call.arrays[y]),
                             kernel->rule.allowed);
    }
    wrong = report(kernel->name, "this CPU", verdict, 1, kernel->remark, run_again, &call);
    for (int i = 0; i <= y; i++)
        free(call.arrays[i]);
    free(call.packed);
    free(call.workspace);
    free(expected.numbers);
    return wrong;
}

int main(void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        wrong |= check(&kernels[i]);
    return wrong;
}
