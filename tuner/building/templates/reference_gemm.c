${indices}    double sum = ${bias};
    for (int64_t i = 0; i < ${k}; i++)
        sum += ${x} * ${weights};
