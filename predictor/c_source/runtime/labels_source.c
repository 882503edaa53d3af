/* The source of a label translator: tokens of sizes, one token of magnitudes and one of words. */

/* log2(value) / 8; values below 1/8 count as 1/8. */
static float sq_logarithm(double value) { return (float)(log2(value > 0.125 ? value : 0.125) / 8); }

/* The code of a size, with its divisibility by powers of two. */
static void sq_size_code(const sq_state *s, const sq_fact *fact, float *out) {
    int known = s->known[fact->slot], i, twos = 0;
    double value = known ? sq_value(s, fact->slot, fact->kind) : 0;
    int64_t size = value > -0x1p62 && value < 0x1p62 ? (int64_t)value : 0;
    sq_code(value, known, out);
    out += SQ_NUMBER_CODE;
    for (i = 0; i < 4; ++i) out[i] = (float)(size > 0 && size % (128 << i) == 0);
    while (size != 0 && twos < 10 && size % 2 == 0) { size /= 2; ++twos; }
    out[4] = (float)twos / 8;
}

static void sq_read_source(sq_work *w, sq_state *s) {
    const sq_fact *fact = sq_sizes;
    float *magnitude = w->model.codes;
    const sq_word_pair *pair;
    int token, i, j, k;
    sq_evaluate(s);
    w->positions = SQ_POSITIONS;
    for (token = 0; token < SQ_POSITIONS; ++token)
        sq_row(w, &sq_token_rows, token, SQ_WIDTH / SQ_PANEL, w->x + token * SQ_WIDTH);
    for (token = 0; token < SQ_SIZED; ++token) {
        for (i = 0; i < sq_size_counts[token]; ++i) sq_size_code(s, fact++, w->model.codes + i * SQ_SIZE_CODE);
        sq_apply(w, &sq_size_weights[token], w->model.codes, 1, 0, w->x + token * SQ_WIDTH, SQ_WIDTH, 1);
    }
    for (i = 0, fact = sq_magnitudes; i < SQ_MAGNITUDES; ++i, ++fact)
        magnitude[i] = s->known[fact->slot] ? sq_logarithm(sq_value(s, fact->slot, fact->kind)) : -1.0f;
    for (fact = sq_label_facts, j = 0; j < SQ_FACTS; ++i, ++j, ++fact)
        magnitude[i] = sq_logarithm(s->known[fact->slot] ? sq_value(s, fact->slot, fact->kind) : 0);
    for (j = 0; j < SQ_SHARES; ++i, ++j) magnitude[i] = magnitude[sq_shares[j]] - magnitude[SQ_MAGNITUDES];
    sq_apply(w, &sq_work_weights, magnitude, 1, 0, w->x + SQ_SIZED * SQ_WIDTH, SQ_WIDTH, 1);
    for (i = 0; i < SQ_WORDS; ++i) {
        int number = 1;
        for (pair = sq_source_words; pair->fact >= 0; ++pair)
            if (pair->fact == i && s->known[sq_word_slots[i]] && s->i[sq_word_slots[i]] == pair->word)
                number = pair->number;
        sq_row(w, &sq_word_rows, number, SQ_WIDTH / SQ_PANEL, w->unit);
        for (k = 0; k < SQ_WIDTH; ++k) w->x[(SQ_SIZED + 1) * SQ_WIDTH + k] += w->unit[k];
    }
    memcpy(w->unit, w->x, SQ_POSITIONS * SQ_WIDTH * sizeof(float));
    w->math->gelu(w->unit, SQ_POSITIONS * SQ_WIDTH);
    sq_apply(w, &sq_reader_mix, w->unit, SQ_POSITIONS, SQ_WIDTH, w->x, SQ_WIDTH, 1);
    sq_centre(w->x, SQ_POSITIONS);
    sq_encode(w);
}
