/* Target words: their vectors for a problem, what their derived quantities add, and their scores. */

#define SQ_NUMBERS 6 /* of a derived quantity */

/* Begin a prediction: the quantities of the problem that words are compared with; no word has a vector yet. */
static void sq_begin_words(sq_work *w, const sq_state *s) {
    int i;
    for (i = 0; i < SQ_QUANTITIES; ++i) {
        int slot = sq_quantity_slots[s->operation][i];
        double value = slot < 0 || !s->known[slot] ? 0 : sq_value(s, slot, 0);
        if (slot == SQ_WORK_GROUP && value > 1024) value = 1024;
        w->model.quantities[i] = (float)value;
    }
    w->model.resolved = 0;
    memset(w->model.have, 0, sizeof w->model.have);
}

/* The numbers by which networks know a derived quantity, given its log2. */
static void sq_numbers(float octave, float *out) {
    out[0] = 1;
    out[1] = octave * 0.125f;
    out[2] = 2 * (octave < -1 ? -1.0f : octave > 1 ? 1.0f : octave);
    out[3] = (float)(fabsf(octave) < 1e-3f);
    out[4] = exp2f(octave > 0 ? -octave : 0.0f);
    out[5] = exp2f(octave < 5 ? octave : 5.0f) / 16;
}

/* Compare the problem's quantities with the value of a word: how it fits. */
static void sq_fit(const float *quantities, float value, float *out) {
    int i;
    for (i = 0; i < SQ_QUANTITIES; ++i, out += 4) {
        float q = quantities[i], ratio, times, share;
        out[0] = out[1] = out[2] = out[3] = 0;
        if (!(q > 0)) continue;
        ratio = q / value;
        times = ceilf(ratio);
        share = q / (times * value);
        out[0] = log2f(ratio) / 8;
        out[1] = share;
        out[2] = (float)(share == 1);
        out[3] = (float)(times == 1);
    }
}

/* Compute the vectors of these words, unless they have been. */
static void sq_word_vectors(sq_work *w, const int *words, int count) {
    int begin = 0, i, j;
    while (begin < count) {
        int batch[SQ_BATCH], rows = 0;
        for (; begin < count && rows < SQ_BATCH; ++begin) {
            int word = words[begin];
            float *vector = w->model.vectors + (long)word * SQ_WIDTH;
            if (w->model.have[word]) continue;
            w->model.have[word] = 1;
            sq_row(w, &sq_base_rows, word, SQ_WIDTH / SQ_PANEL, vector);
            if (!(sq_target_values[word] > 0)) continue;
            sq_fit(w->model.quantities, sq_target_values[word], w->parts + (long)rows * 4 * SQ_QUANTITIES);
            sq_row(w, &sq_input_rows, word, SQ_WIDTH / SQ_PANEL, w->unit + (long)rows * SQ_WIDTH);
            batch[rows++] = word;
        }
        sq_apply(w, &sq_fits, w->parts, rows, 4 * SQ_QUANTITIES, w->unit, SQ_WIDTH, 1);
        w->math->gelu(w->unit, (long)rows * SQ_WIDTH);
        sq_apply(w, &sq_target_mix, w->unit, rows, SQ_WIDTH, w->parts, SQ_WIDTH, 0);
        for (i = 0; i < rows; ++i)
            for (j = 0; j < SQ_WIDTH; ++j)
                w->model.vectors[(long)batch[i] * SQ_WIDTH + j] += w->parts[(long)i * SQ_WIDTH + j];
    }
}

/* Add to rows of sums what quantities add. The candidates are of one kernel. */
static void sq_resolve_rows(sq_work *w, const sq_quantity *const *quantities, int count,
                            const sq_candidate *candidates, int rows, float *sums) {
    sq_rows part;
    int i, row, n;
    if (!count) return;
    for (i = 0; i < count; ++i) {
        for (n = 0; n < SQ_NUMBERS && w->model.resolved != quantities[0]; ++n)
            sq_row(w, &sq_quantity_rows, (long)quantities[i]->index * SQ_NUMBERS + n, SQ_WIDTH / SQ_PANEL,
                   w->model.rows + ((long)i * SQ_NUMBERS + n) * SQ_WIDTH);
        for (row = 0; row < rows; ++row)
            sq_numbers(candidates[row].octave[i], w->model.numbers + ((long)row * SQ_FRESH + i) * SQ_NUMBERS);
    }
    w->model.resolved = quantities[0];
    part.x = w->model.numbers;
    part.rows = rows;
    part.x_stride = SQ_FRESH * SQ_NUMBERS;
    part.out_stride = SQ_WIDTH;
    part.add = 1;
    part.out = sums;
    sq_multiply(w, &part, count * SQ_NUMBERS, w->model.rows, SQ_WIDTH, SQ_PANEL, SQ_WIDTH);
}

static int sq_fresh(const sq_kernel *kernel, int column, const sq_quantity **quantities) {
    int count = 0, i;
    for (i = 0; i < kernel->quantities; ++i)
        if (kernel->quantity[i].column == column) quantities[count++] = &kernel->quantity[i];
    return count;
}

/* Put the vectors that the decoder reads into `w->x`. */
static void sq_inputs(sq_work *w, const sq_hypothesis *hypotheses, int rows) {
    int words[SQ_BEAM] = {0}, row, i; /* at -O3, gcc warns of numbers that nothing reads */
    for (row = 0; row < rows; ++row) words[row] = hypotheses[row].word;
    sq_word_vectors(w, words, rows);
    for (row = 0; row < rows; ++row) {
        const float *vector = w->model.vectors + (long)hypotheses[row].word * SQ_WIDTH;
        for (i = 0; i < SQ_WIDTH; ++i) {
            w->x[(long)row * SQ_WIDTH + i] = vector[i];
            w->unit[(long)row * SQ_WIDTH + i] = hypotheses[row].sums[i] + vector[i];
        }
    }
    w->math->gelu(w->unit, (long)rows * SQ_WIDTH);
    sq_apply(w, &sq_read_resolved, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
    sq_centre(w->x, rows);
}

/* The sum of what the quantities of a candidate's prefix add, its own included. */
static void sq_sums(sq_work *w, const sq_hypothesis *hypotheses, const sq_candidate *candidates, int count, int column,
                    float *sums) {
    const sq_quantity *quantities[SQ_FRESH + 1];
    int row, begin = 0;
    for (row = 0; row < count; ++row)
        memcpy(sums + (long)row * SQ_WIDTH, hypotheses[candidates[row].parent].sums, SQ_WIDTH * sizeof(float));
    while (begin < count) { /* candidates of one kernel are neighbours, and resolve the same quantities */
        int end = begin, space = candidates[begin].space;
        while (end < count && candidates[end].space == space) ++end;
        sq_resolve_rows(w, quantities, sq_fresh(&sq_kernels[space], column, quantities), candidates + begin,
                        end - begin, sums + (long)begin * SQ_WIDTH);
        begin = end;
    }
}

/* Score candidates, up to a constant for each hypothesis; `w->unit` holds the states of `rows` hypotheses, which begin
 * with number `first`. */
static void sq_score(sq_work *w, const sq_hypothesis *hypotheses, int first, int rows, sq_candidate *candidates,
                     int count, int column) {
    float *asked = w->model.asked, *states = w->model.states;
    int begin, row, i, part;
    sq_apply(w, &sq_ask, w->unit, rows, SQ_WIDTH, asked, SQ_WIDTH + SQ_HIDDEN, 0);
    for (row = 0; row < rows; ++row)
        for (i = 0; i < SQ_WIDTH; ++i)
            states[row * SQ_WIDTH + i] = w->unit[(long)row * SQ_WIDTH + i] * sq_state_gain[i] + sq_state_offset[i];
    for (begin = 0; begin < count; begin += part) {
        int words[SQ_BATCH];
        part = count - begin < SQ_BATCH ? count - begin : SQ_BATCH;
        for (row = 0; row < part; ++row) words[row] = candidates[begin + row].word;
        sq_word_vectors(w, words, part);
        sq_sums(w, hypotheses, candidates + begin, part, column, w->unit);
        for (row = 0; row < part; ++row) {
            const float *vector = w->model.vectors + (long)words[row] * SQ_WIDTH;
            const float *query = asked + (long)(candidates[begin + row].parent - first) * (SQ_WIDTH + SQ_HIDDEN);
            w->math->add(w->unit + (long)row * SQ_WIDTH, vector, 1, SQ_WIDTH);
            w->math->add(w->unit + (long)row * SQ_WIDTH, query, 1, SQ_WIDTH);
        }
        w->math->gelu(w->unit, (long)part * SQ_WIDTH);
        sq_apply(w, &sq_answer, w->unit, part, SQ_WIDTH, w->parts, SQ_HIDDEN, 0);
        w->math->gelu(w->parts, (long)part * SQ_HIDDEN);
        for (row = 0; row < part; ++row) {
            int parent = candidates[begin + row].parent - first;
            candidates[begin + row].score =
                w->math->dot(states + parent * SQ_WIDTH, w->model.vectors + (long)words[row] * SQ_WIDTH, SQ_WIDTH)
                + w->math->dot(asked + (long)parent * (SQ_WIDTH + SQ_HIDDEN) + SQ_WIDTH, w->parts + (long)row * SQ_HIDDEN,
                         SQ_HIDDEN);
        }
    }
}

static void sq_add_sums(sq_work *w, const sq_hypothesis *hypotheses, const sq_candidate *candidate, int column,
                        sq_hypothesis *made) {
    if (!made->complete) sq_sums(w, hypotheses, candidate, 1, column, made->sums);
}
