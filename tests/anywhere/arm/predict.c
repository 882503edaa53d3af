/* The first answers of an exported predictor for some problems on two ARM CPUs, a line each. */
#include <stdio.h>

#include "predictor.c"

static void answer(seqtune_problem *problem, const seqtune_device *device) {
    seqtune_configuration best[5];
    int count = seqtune_predict(problem, device, best, 5);
    printf("%d", count);
    for (int n = 0; n < count; n++) {
        printf(" %s", best[n].kernel);
        for (int i = 0; i < best[n].count; i++)
            if (best[n].setting[i].word)
                printf(" %s=%s", best[n].setting[i].name, best[n].setting[i].word);
            else
                printf(" %s=%lld", best[n].setting[i].name, (long long)best[n].setting[i].number);
    }
    printf("\n");
}

int main(void) {
    seqtune_problem problem;
    seqtune_device device;
    for (int wide = 0; wide < 2; wide++) {
        seqtune_device_init(&device);
        device.backend = "llvm";
        device.instruction_set = wide ? "sve512" : "neon";
        device.architecture = wide ? "a64fx" : "neoverse-n1";
        device.threads = device.compute_units = 4;
        device.vector_bits = wide ? 512 : 128;
        device.vector_registers = 32;
        device.l1_bytes = 65536;
        device.l2_bytes = 1048576;
        device.peak_gflops = wide ? 500.0 : 160.0;
        device.bandwidth_gbs = 40.0;
        for (int size = 16; size <= 512; size *= 2) {
            seqtune_problem_init(&problem, SEQTUNE_GEMM);
            problem.of.gemm.m = size / 2 + 1;
            problem.of.gemm.n = size;
            problem.of.gemm.k = 2 * size;
            answer(&problem, &device);
            seqtune_problem_init(&problem, SEQTUNE_CONV2D);
            problem.of.conv2d.c = problem.of.conv2d.k = size;
            problem.of.conv2d.h = problem.of.conv2d.w = 14;
            problem.of.conv2d.r = problem.of.conv2d.s = 3;
            problem.of.conv2d.pad_h = problem.of.conv2d.pad_w = 1;
            answer(&problem, &device);
        }
    }
    return 0;
}
