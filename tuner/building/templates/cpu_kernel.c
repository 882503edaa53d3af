
/* ${problem} */

extern entry ${entries};
${pack}
/* A share of one phase, or all shares of all phases. */
static int ${name}_part(${packed}, ${y} *y, void *workspace, int phase, int index)
{
    static const struct phase phases[] = {${phases}};
    const void *const operands[] = {${addresses}};
    const int64_t arguments[] = {${arguments}};
    if (!supported())
        return 1;
    if (phase == ALL)
        run_phases(phases, ${NAME}_PHASES, operands, y, workspace, arguments, ${NAME}_SHARES);
    else
        run_share(phases + phase, operands, y, workspace, arguments, index, ${NAME}_SHARES);
    return 0;
}

int ${name}_share(${packed}, ${y} *y, void *workspace, int phase, int index)
{
    if (phase < 0 || phase >= ${NAME}_PHASES || index < 0 || index >= ${NAME}_SHARES)
        return 3;
    return ${name}_part(${given}, y, workspace, phase, index);
}

int ${name}_run(${packed}, ${y} *y, void *workspace)
{
    return ${name}_part(${given}, y, workspace, ALL, 0);
}

int ${name}(${plain}, ${y} *y)
{
    void *workspace = aligned(${NAME}_WORKSPACE_BYTES), *packed = aligned(${NAME}_PACKED_BYTES);
    int code = workspace && packed ? 0 : 2;
    if (!code) {
${pack_call}        code = ${name}_run(${given}, y, workspace);
    }
    free(packed);
    free(workspace);
    return code;
}
