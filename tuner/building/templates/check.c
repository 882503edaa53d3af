/* Runs every kernel of the folder on inputs from a seed, in each way in which programs call it, compares its outputs
   with a reference, and times it: a line each.

   Run:  ./check [FOLDER]      FOLDER holds these files; the current one by default

   check.h holds the kernels with their arrays and references. Exit status: 0 all are right, 1 one is wrong, 2 this
   machine cannot run them. */

#include "arrays.h"

struct kernel {
    const char *name, *remark;
    const struct array *abouts;    /* the operands, and the outputs behind them */
    int operand_count, array_count, rule_count;
    const struct rule *rules;
    size_t packed, workspace;      /* bytes */
    reference *reference;
    double (*run)(int way, void *const *arrays, void *packed, void *workspace);    /* returns the seconds of a run */
};

#include "check.h"

struct call {
    const struct kernel *kernel;
    void *contents[MOST_ARRAYS], *arrays[MOST_ARRAYS], *packed, *workspace;    /* contents are those before a run */
};

static size_t bytes_of(const struct array *about)
{
    return about->count * size_of(about->type);
}

static double run(const struct call *call, int way)
{
    const struct kernel *kernel = call->kernel;
    for (int i = kernel->operand_count; i < kernel->array_count; i++)
        memcpy(call->arrays[i], call->contents[i], bytes_of(&kernel->abouts[i]));
    return kernel->run(way, call->arrays, call->packed, call->workspace);
}

static double run_again(void *call)
{
    return run(call, TIMED_WAY);
}

static int check(const struct kernel *kernel)
{
    struct call call = {kernel, {NULL}, {NULL}, memory(kernel->packed, 1), memory(kernel->workspace, 1)};
    struct verdict verdict = {0, 0};
    int wrong;

    make_arrays(kernel->abouts, kernel->array_count, call.contents);
    for (int i = 0; i < kernel->array_count; i++)
        call.arrays[i] = i < kernel->operand_count ? call.contents[i] : memory(bytes_of(&kernel->abouts[i]), 1);
    for (int i = 0; i < kernel->rule_count; i++) {
        const struct rule *rule = &kernel->rules[i];
        const struct expected expected = expected_of(rule, kernel->reference, call.contents);
        for (int way = 0; way < WAYS; way++) {
            run(&call, way);
            verdict = with_error(verdict, largest_error(rule, &expected, &kernel->abouts[rule->output],
                                                        call.arrays[rule->output]), rule->allowed);
        }
        free(expected.numbers);
        free(expected.sizes);
    }
    run(&call, TIMED_WAY);
    wrong = report(kernel->name, DEVICE, verdict, kernel->rule_count, kernel->remark, run_again, &call);
    for (int i = 0; i < kernel->array_count; i++) {
        if (call.arrays[i] != call.contents[i])
            free(call.arrays[i]);
        free(call.contents[i]);
    }
    free(call.packed);
    free(call.workspace);
    return wrong;
}

int main(int count, char **words)
{
    int wrong = 0;
    if (count > 1)
        folder = words[1];
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        wrong |= check(&kernels[i]);
    CLOSE;
    return wrong;
}
