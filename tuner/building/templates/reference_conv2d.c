${indices}    double sum = ${bias};
    const int64_t group = channel / ${k_per_group};
    for (int64_t c = 0; c < ${c_per_group}; c++)
    for (int64_t r = 0; r < ${r}; r++) {
        const int64_t line = row * ${stride_h} + r * ${dilation_h} - ${pad_h};
        if (line < 0 || line >= ${h})
            continue;
        for (int64_t s = 0; s < ${s}; s++) {
            const int64_t at = column * ${stride_w} + s * ${dilation_w} - ${pad_w};
            if (at >= 0 && at < ${w})
                sum += ${x} * ${weights};
        }
    }
