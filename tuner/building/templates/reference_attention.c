${indices}    const int64_t shared = head / ${group}, seen = ${causal} && query + 1 < ${kv_len} ? query + 1 : ${kv_len};
    double largest = -INFINITY, weight = 0, sum = 0;
    for (int turn = 0; turn < 2; turn++)
    for (int64_t key = 0; key < seen; key++) {
        double score = 0;
        for (int64_t i = 0; i < ${head_dim}; i++)
            score += ${q} * ${k};
        score = score / sqrt(${head_dim}.0) + ${mask};
        if (!turn) {
            largest = score > largest ? score : largest;
        } else {
            weight += exp(score - largest);
            sum += exp(score - largest) * ${v};
        }
    }
    sum /= weight;
