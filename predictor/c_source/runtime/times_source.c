/* The source sentence: one position for each fact of the problem and the device. */

/* The word of the source vocabulary for a word in a slot; 1 is <unknown>. */
static int sq_source_word(int fact, int64_t word) {
    const sq_word_pair *pair;
    for (pair = sq_source_words; pair->fact >= 0; ++pair)
        if (pair->fact == fact && pair->word == word) return pair->number;
    return 1;
}

static void sq_read_source(sq_work *w, sq_state *s) {
    const sq_fact *fact;
    int row, i, rows = 0;
    for (fact = sq_facts[s->operation]; fact->name >= 0; ++fact) {
        int word = 0, known = fact->kind != 3 && fact->kind != 4 && s->known[fact->slot];
        float *code = w->model.codes + (long)rows * SQ_NUMBER_CODE;
        double value = 0;
        memset(code, 0, SQ_NUMBER_CODE * sizeof(float)); /* a word's meaning is in its embedding */
        if (fact->kind == 3) word = fact->slot;
        else if (fact->kind == 2 && known) word = sq_source_word(fact->name, s->i[fact->slot]);
        else {
            if (fact->kind == 4) value = sq_machine_ratio(s, fact->slot), known = value >= 0;
            else if (known) value = sq_value(s, fact->slot, fact->kind == 1);
            if (fact->kind == 5 && value > 1024) value = 1024; /* no work-group of a kernel is larger */
            if (fact->kind == 6 && s->i[SQ_THREADS] != 0) value = 0; /* a CPU's runtime says what it likes */
            sq_code(value, known, code);
        }
        sq_row(w, &sq_name_rows, fact->name, SQ_WIDTH / SQ_PANEL, w->x + (long)rows * SQ_WIDTH);
        sq_row(w, &sq_word_rows, word, SQ_WIDTH / SQ_PANEL, w->unit);
        for (i = 0; i < SQ_WIDTH; ++i) w->x[(long)rows * SQ_WIDTH + i] += w->unit[i];
        ++rows;
    }
    w->positions = rows;
    for (row = 0; row < rows; ++row)
        memcpy(w->unit + (long)row * SQ_WIDTH, w->x + (long)row * SQ_WIDTH, SQ_WIDTH * sizeof(float));
    sq_apply(w, &sq_source_code, w->model.codes, rows, SQ_NUMBER_CODE, w->unit, SQ_WIDTH, 1);
    w->math->gelu(w->unit, (long)rows * SQ_WIDTH);
    sq_apply(w, &sq_source_mix, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
    sq_centre(w->x, rows);
    sq_encode(w);
    for (i = 0; i < SQ_WIDTH; ++i) {
        double sum = 0;
        for (row = 0; row < rows; ++row) sum += w->unit[(long)row * SQ_WIDTH + i];
        w->model.mean[i] = (float)(sum / rows) * sq_encoded_gain[i] + sq_encoded_offset[i];
    }
    for (i = 0; i < SQ_QUANTITIES; ++i) {
        int slot = sq_quantity_slots[s->operation][i];
        double value = slot < 0 || !s->known[slot] ? 0 : sq_value(s, slot, 0);
        if (slot == SQ_WORK_GROUP && value > 1024) value = 1024;
        w->model.quantities[i] = (float)value;
    }
    w->model.resolved = 0;
    memset(w->model.have, 0, sizeof w->model.have);
}
