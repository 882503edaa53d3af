/* A caller of an exported predictor, with every function, struct and constant that it may use: prints five proposals. */

#include <stdio.h>
#include <stdlib.h>

#include "predictor.h"

static void print(const seqtune_configuration *found) {
    int i;
    printf("%s", found->kernel);
    for (i = 0; i < found->count; ++i) {
        const seqtune_setting *setting = &found->setting[i];
        if (setting->word)
            printf(" %s=%s", setting->name, setting->word);
        else
            printf(" %s=%ld", setting->name, (long)setting->number);
    }
    printf("\n");
}

int main(void) {
    seqtune_problem problem;
    seqtune_device device;
    seqtune_configuration first[SEQTUNE_MOST], second[SEQTUNE_MOST];
    size_t bytes = seqtune_scratch_bytes();
    void *scratch = malloc(bytes);
    int i, count;
    if (!scratch || SEQTUNE_PARAMETERS < 3 || SEQTUNE_MOST < 5) return 1;
    if (seqtune_problem_init(&problem, SEQTUNE_STENCIL) || problem.operation != SEQTUNE_STENCIL) return 2;
    if (problem.of.stencil.n != SEQTUNE_UNKNOWN || problem.of.stencil.border != SEQTUNE_STENCIL_BORDER_ZERO) return 3;
    problem.of.stencil.border = SEQTUNE_STENCIL_BORDER_WRAP;
    problem.of.stencil.n = 256;
    seqtune_device_init(&device);
    device.backend = "fake";
    device.instruction_set = "avx512";
    device.architecture = "toy1";
    device.threads = 2;
    device.compute_units = 2;
    device.vector_bits = 512;
    device.vector_registers = 32;
    device.l1_bytes = 32768;
    device.l2_bytes = 1048576;
    device.l3_bytes = 16777216;
    device.local_memory = 0;
    device.max_work_group = 0;
    device.peak_gflops = 200.0;
    device.bandwidth_gbs = 20.0;
    count = seqtune_predict(&problem, &device, first, 5);
    if (count != 5) return 4;
    if (seqtune_predict_in(scratch, bytes, &problem, &device, second, 5) != count) return 5;
    for (i = 0; i < count; ++i) {
        if (first[i].kernel != second[i].kernel || !(first[i].log_probability <= 0)) return 6;
        print(&first[i]);
    }
    if (seqtune_predict(NULL, &device, first, 1) != SEQTUNE_ERROR_NULL) return 7;
    if (seqtune_predict(&problem, &device, first, SEQTUNE_MOST + 1) != SEQTUNE_ERROR_COUNT) return 8;
    if (seqtune_predict_in(scratch, bytes / 2, &problem, &device, first, 1) != SEQTUNE_ERROR_SCRATCH) return 9;
    problem.of.stencil.n = 255;
    if (seqtune_predict(&problem, &device, first, 1) != SEQTUNE_ERROR_PROBLEM) return 10;
    problem.of.stencil.n = 256;
    device.backend = "none";
    if (seqtune_predict(&problem, &device, first, 1) != SEQTUNE_ERROR_NO_KERNEL) return 11;
    device.backend = NULL;
    if (seqtune_predict(&problem, &device, first, 1) != SEQTUNE_ERROR_DEVICE) return 12;
    free(scratch);
    return 0;
}
