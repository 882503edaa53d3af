/* Target words that mean the same for every problem and after every beginning of a sentence. */

static void sq_begin_words(const sq_work *w, const sq_state *s) {
    (void)w;
    (void)s;
}

static void sq_inputs(sq_work *w, const sq_hypothesis *hypotheses, int rows) {
    int row;
    for (row = 0; row < rows; ++row)
        sq_row(w, &sq_read_rows, hypotheses[row].word, SQ_WIDTH / SQ_PANEL, w->x + row * SQ_WIDTH);
}

/* Score candidates, up to a constant for each hypothesis; `w->unit` holds the states of `rows` hypotheses, which begin
 * with number `first`. */
static void sq_score(sq_work *w, const sq_hypothesis *hypotheses, int first, int rows, sq_candidate *candidates,
                     int count, int column) {
    float vector[SQ_WIDTH];
    int row;
    (void)hypotheses;
    (void)rows;
    (void)column;
    for (row = 0; row < count; ++row) {
        const float *state = w->unit + (long)(candidates[row].parent - first) * SQ_WIDTH;
        sq_row(w, &sq_answer_rows, candidates[row].word, SQ_WIDTH / SQ_PANEL, vector);
        candidates[row].score = w->math->dot(state, vector, SQ_WIDTH) + sq_answer_bias[candidates[row].word];
    }
}

static void sq_add_sums(const sq_work *w, const sq_hypothesis *hypotheses, const sq_candidate *candidate, int column,
                        const sq_hypothesis *made) {
    (void)w;
    (void)hypotheses;
    (void)candidate;
    (void)column;
    (void)made;
}
