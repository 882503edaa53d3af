//! C99 functions that pack a constant operand by arithmetic, in the words of `string.Template`.
//= winograd
static void ${name}(const float *weights, void *packed)
{
    static const double transform[${points}][9] = {
        ${rows}};
    float *to = packed;
    for (int64_t block = 0; block < ${blocks}; block++)
    for (int64_t point = 0; point < ${points}; point++)
    for (int64_t channel = 0; channel < ${c}; channel++)
    for (int64_t lane = 0; lane < ${lanes}; lane++) {
        const int64_t first = block * ${lanes} < ${k} - ${lanes} ? block * ${lanes} : ${k} - ${lanes};
        const float *taps = weights + ((first + lane) * ${c} + channel) * 9;
        double sum = 0;
        for (int tap = 0; tap < 9; tap++)
            sum += transform[point][tap] * taps[tap];
        *to++ = (float)sum;
    }
}
//= int8
static void ${name}(const int8_t *weights, void *packed)
{
    int8_t *to = packed;
    for (int64_t block = 0; block < ${blocks}; block++) {
        const int64_t first = block * ${lanes} < ${n} - ${lanes} ? block * ${lanes} : ${n} - ${lanes};
        for (int64_t lane = 0; lane < ${lanes}; lane++, to += 4) {
            int32_t sum = 0;
            for (int64_t step = 0; step < ${k}; step++)
                sum -= 128 * weights[step * ${along} + (first + lane) * ${across}];
            memcpy(to, &sum, 4);
        }
        for (int64_t step = 0; step < ${k}; step += 4)
        for (int64_t lane = 0; lane < ${lanes}; lane++)
        for (int64_t part = 0; part < 4; part++)
            *to++ = weights[(step + part) * ${along} + (first + lane) * ${across}];
    }
}
