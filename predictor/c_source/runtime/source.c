/* The source sentence: facts of the problem and the device. Each has a position of its own, or several share one. */

/* The word of the source vocabulary for a word in a slot; 1 is <unknown>. */
static int sq_source_word(int fact, int64_t word) {
    const sq_word_pair *pair;
    for (pair = sq_source_words; pair->fact >= 0; ++pair)
        if (pair->fact == fact && pair->word == word) return pair->number;
    return 1;
}

/* Read a fact: the code of a number, which is 0 for a word, and the word, which is 0 for a number. */
static int sq_read_fact(const sq_state *s, const sq_fact *fact, float *code) {
    int known = fact->kind != 3 && fact->kind != 4 && s->known[fact->slot];
    double value = 0;
    memset(code, 0, SQ_NUMBER_CODE * sizeof(float)); /* a word's meaning is in its embedding */
    if (fact->kind == 3) return fact->slot;
    if (fact->kind == 2 && known) return sq_source_word(fact->name, s->i[fact->slot]);
    if (fact->kind == 4) value = sq_machine_ratio(s, fact->slot), known = value >= 0;
    else if (known) value = sq_value(s, fact->slot, fact->kind == 1);
    if (fact->kind == 5 && value > 1024) value = 1024; /* no work-group of a kernel is larger */
    if (fact->kind == 6 && s->i[SQ_THREADS] != 0) value = 0; /* a CPU's runtime says what it likes */
    sq_code(value, known, code);
    return 0;
}

#if SQ_MAPS
/* Add the product of a code, most of which is 0, and a map. */
static void sq_add_code(const sq_work *w, const sq_map *map, const float *code, float *out) {
    enum { quads = SQ_QUADS(SQ_WIDTH / SQ_PANEL) };
    float numbers[quads * SQ_FOUR];
    int i;
    for (i = 0; i < map->rows; ++i) {
        float number = code[sq_code_order[i]];
        if (!(fabsf(number) > 0)) continue;
        w->math->table(map->quad + (long)i * quads, quads, numbers);
        w->math->add(out, numbers, number * map->scale, SQ_WIDTH);
    }
}
#endif

static void sq_read_source(sq_work *w, sq_state *s) {
    const sq_fact *fact;
#if SQ_MAPS
    const sq_map *map = sq_maps;
#endif
    int i, rows = 0;
    sq_evaluate(s);
    for (fact = sq_facts[s->operation]; fact->name >= 0; ++fact) {
        float *code = w->model.codes + (long)(SQ_CODES > 1 ? fact->position : 0) * SQ_NUMBER_CODE;
        float *out = w->x + (long)fact->position * SQ_WIDTH;
        int word = sq_read_fact(s, fact, code);
        if (fact->position == rows) {
            memset(out, 0, SQ_WIDTH * sizeof(float));
            ++rows;
        }
        sq_row(w, &sq_name_rows, fact->name, SQ_WIDTH / SQ_PANEL, w->unit);
        sq_row(w, &sq_word_rows, word, SQ_WIDTH / SQ_PANEL, w->unit + SQ_WIDTH);
        for (i = 0; i < SQ_WIDTH; ++i) out[i] = (out[i] + w->unit[i]) + w->unit[SQ_WIDTH + i];
#if SQ_MAPS
        sq_add_code(w, map++, code, out);
#endif
    }
    w->positions = rows;
    memcpy(w->unit, w->x, (size_t)rows * SQ_WIDTH * sizeof(float));
#if !SQ_MAPS
    sq_apply(w, &sq_source_code, w->model.codes, rows, SQ_NUMBER_CODE, w->unit, SQ_WIDTH, 1);
#endif
    w->math->gelu(w->unit, (long)rows * SQ_WIDTH);
    sq_apply(w, &sq_source_mix, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
    sq_centre(w->x, rows);
    sq_encode(w);
#if SQ_JUDGE
    for (i = 0; i < SQ_WIDTH; ++i) {
        double sum = 0;
        int row;
        for (row = 0; row < rows; ++row) sum += w->unit[(long)row * SQ_WIDTH + i];
        w->model.mean[i] = (float)(sum / rows) * sq_encoded_gain[i] + sq_encoded_offset[i];
    }
#endif
    sq_begin_words(w, s);
}
