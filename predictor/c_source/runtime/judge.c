/* The judge estimates log(time / best time) of whole configurations, up to a constant; see `order.c`. */

/* Add what the quantities of one kernel's configurations add. */
static void sq_judge_quantities(sq_work *w, const sq_proposal *proposals, int count, int space,
                                float (*numbers)[SQ_MOST_QUANTITIES][SQ_NUMBERS], float *hidden) {
    float *weights = w->past; /* free after the beam search */
    int most = (int)(sizeof w->past / sizeof *w->past / (SQ_NUMBERS * SQ_JUDGE)), first, several, q, n, begin, end;
    sq_rows part;
    part.x_stride = SQ_MOST_QUANTITIES * SQ_NUMBERS;
    part.out_stride = SQ_JUDGE;
    part.add = 1;
    for (first = 0; first < sq_kernels[space].quantities; first += several) {
        several = sq_kernels[space].quantities - first < most ? sq_kernels[space].quantities - first : most;
        for (q = 0; q < several; ++q)
            for (n = 0; n < SQ_NUMBERS; ++n)
                sq_row(w, &sq_judge_rows, (long)sq_kernels[space].quantity[first + q].index * SQ_NUMBERS + n,
                       SQ_JUDGE / SQ_PANEL, weights + (long)(q * SQ_NUMBERS + n) * SQ_JUDGE);
        for (begin = 0; begin < count; begin = end) {
            for (end = begin; end < count && (proposals[end].space == space) == (proposals[begin].space == space);) ++end;
            if (proposals[begin].space != space) continue;
            part.x = numbers[begin][first];
            part.rows = end - begin;
            part.out = hidden + (long)begin * SQ_JUDGE;
            sq_multiply(w, &part, SQ_NUMBERS * several, weights, SQ_JUDGE, SQ_PANEL, SQ_JUDGE);
        }
    }
}

static void sq_ask_judge(sq_work *w, sq_state *s, const sq_proposal *proposals, int count, double *slowness) {
    float *sums = w->x, *hidden = w->parts, *next = w->unit, first[2 * SQ_JUDGE];
    float numbers[SQ_JUDGED][SQ_MOST_QUANTITIES][SQ_NUMBERS];
    int row, i, q, n, space;
    sq_apply(w, &sq_judge_problem, w->model.mean, 1, SQ_WIDTH, first, 2 * SQ_JUDGE, 0);
    for (row = 0; row < count; ++row) {
        const sq_kernel *kernel = &sq_kernels[proposals[row].space];
        int words[SQ_PARAMETERS + 1], column;
        words[0] = kernel->word;
        for (column = 0; column < kernel->parameters; ++column)
            words[column + 1] = kernel->words[column][proposals[row].index[column]];
        sq_word_vectors(w, words, kernel->parameters + 1);
    }
    for (row = 0; row < count; ++row) {
        const sq_kernel *kernel = &sq_kernels[proposals[row].space];
        float *sum = sums + (long)row * SQ_WIDTH, *out = hidden + (long)row * SQ_JUDGE;
        const float *vector = w->model.vectors + (long)kernel->word * SQ_WIDTH;
        int column;
        for (i = 0; i < SQ_WIDTH; ++i) sum[i] = vector[i];
        for (column = 0; column < kernel->parameters; ++column) {
            vector = w->model.vectors + (long)kernel->words[column][proposals[row].index[column]] * SQ_WIDTH;
            for (i = 0; i < SQ_WIDTH; ++i) sum[i] += vector[i];
        }
        for (i = 0; i < SQ_JUDGE; ++i) out[i] = sq_judge_bias[i] + first[i];
        sq_load(s, kernel, proposals[row].index, kernel->parameters);
        for (q = 0; q < kernel->quantities; ++q)
            sq_numbers(sq_octave(s, &kernel->quantity[q]), numbers[row][q]);
    }
    for (row = 0; row < count; ++row) { /* each row of weights is decoded once for each kernel */
        int other;
        space = proposals[row].space;
        for (other = 0; other < row && proposals[other].space != space; ++other) {}
        if (other == row) sq_judge_quantities(w, proposals, count, space, numbers, hidden);
    }
    sq_apply(w, &sq_judge_words, sums, count, SQ_WIDTH, hidden, SQ_JUDGE, 1);
    w->math->gelu(hidden, (long)count * SQ_JUDGE);
    for (i = 0; i < 2; ++i) {
        sq_apply(w, i ? &sq_judge_outer : &sq_judge_inner, hidden, count, SQ_JUDGE, next, SQ_JUDGE, 0);
        if (!i)
            for (row = 0; row < count; ++row)
                for (n = 0; n < SQ_JUDGE; ++n) next[(long)row * SQ_JUDGE + n] += first[SQ_JUDGE + n];
        w->math->gelu(next, (long)count * SQ_JUDGE);
        for (n = 0; n < count * SQ_JUDGE; ++n) hidden[n] += next[n];
    }
    for (row = 0; row < count; ++row)
        slowness[row] = (double)(w->math->dot(hidden + (long)row * SQ_JUDGE, sq_judge_slowness, SQ_JUDGE));
}
