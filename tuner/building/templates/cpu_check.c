static double run_${name}(int way, void *const *arrays, void *packed, void *workspace)
{
    const double begin = now();
    int code = 0;
    if (way == 0) {
        ${pack_arrays}
        code = ${name}(${plain_arrays});
    } else if (way == 1) {
        code = ${name}_run(${packed_arrays}, workspace);
    } else {
        for (int share = 0; share < ${NAME}_PHASES * ${NAME}_SHARES && !code; share++)
            code = ${name}_share(${packed_arrays}, workspace, share / ${NAME}_SHARES, share % ${NAME}_SHARES);
    }
    if (code)
        stop("${name}", ${library}_error(code));
    return now() - begin;
}
