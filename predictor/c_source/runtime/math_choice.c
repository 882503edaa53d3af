/* The functions for this processor. */
static const sq_math *sq_best_math(void) {
#if SQ_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma")) return &sq_math_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &sq_math_avx2;
#endif
    return &sq_math_any;
}
