/* The encoder and the decoder of the transformer. The residual stream is centred, so layer norms only scale it. */

#define SQ_PADDED_TO(count) (((count) + SQ_PANEL - 1) / SQ_PANEL * SQ_PANEL)
#define SQ_PADDED SQ_PADDED_TO(SQ_POSITIONS)
#define SQ_LONGEST_ROW (SQ_JUDGE > SQ_WIDTH ? SQ_JUDGE : SQ_WIDTH)
#define SQ_HEAD (SQ_WIDTH / SQ_HEADS)
#define SQ_ROWS_OF_TEXT (SQ_POSITIONS > SQ_BATCH ? SQ_POSITIONS : SQ_BATCH)
#define SQ_ROWS_OF_JUDGE ((SQ_JUDGED * SQ_LONGEST_ROW + SQ_WIDTH - 1) / SQ_WIDTH) /* rows with room for all judged */
#define SQ_ROWS_AT_ONCE (SQ_ROWS_OF_TEXT > SQ_ROWS_OF_JUDGE ? SQ_ROWS_OF_TEXT : SQ_ROWS_OF_JUDGE)
#define SQ_PARTS (3 * SQ_WIDTH > SQ_HIDDEN ? 3 * SQ_WIDTH : SQ_HIDDEN)

/* Scratch of one prediction. */
typedef struct {
    const sq_math *math;
    int positions;                                                /* of the source sentence */
    int keeps;                                                    /* whether `kept` is decoded, which a beam search needs */
    float x[SQ_ROWS_AT_ONCE * SQ_WIDTH], unit[SQ_ROWS_AT_ONCE * SQ_WIDTH];
    float parts[SQ_ROWS_AT_ONCE * SQ_PARTS];
    float scores[SQ_ROWS_AT_ONCE * SQ_PADDED];
    float keys[SQ_DEPTH * SQ_HEADS * SQ_HEAD * SQ_PADDED];        /* of the source: layer, head, panel, number, position */
    float values[SQ_DEPTH * SQ_POSITIONS * SQ_WIDTH];             /* of the source: layer, position */
    float past[SQ_DEPTH * SQ_LONGEST * SQ_BEAM * 2 * SQ_WIDTH];   /* keys and values: layer, word, hypothesis */
    float kept[SQ_KEPT];                                          /* weights that are decoded once */
    sq_model model;
#if SQ_TREES
    sq_descent descent;
#endif
} sq_work;

static void sq_keep(sq_work *w) {
    const sq_run *run;
    float *out = w->kept;
    w->keeps = 1;
    for (run = sq_kept_runs; run->count; out += (long)run++->count * SQ_FOUR)
        w->math->table(run->quad, run->count, out);
}

static void sq_apply(const sq_work *w, const sq_linear *linear, const float *x, int rows, int stride, float *out,
                     int out_stride, int add) {
    sq_rows part;
    if (!rows) return;
    part.x = x;
    part.out = out;
    part.rows = rows;
    part.x_stride = stride;
    part.out_stride = out_stride;
    part.add = add;
    part.kept = linear->kept < 0 || !w->keeps ? 0 : w->kept + linear->kept;
    w->math->linear(linear, &part);
}

/* Multiply `part` by panels of 16 columns, whose rows are `stride` numbers apart, without scale and bias. */
static void sq_multiply(const sq_work *w, const sq_rows *part, int depth, const float *weights, int stride, long next,
                        int columns) {
    sq_panels panels;
    panels.weights = weights;
    panels.depth = depth;
    panels.stride = stride;
    panels.columns = columns;
    panels.next = next;
    panels.scale = panels.bias = 0;
    panels.ahead = panels.end = 0;
    w->math->product(part, &panels);
}

/* Read a row of a table: numbers of 16 times `panels`. */
static void sq_row(const sq_work *w, const sq_table *table, long row, int panels, float *out) {
    float numbers[SQ_QUADS(SQ_LONGEST_ROW / SQ_PANEL) * SQ_FOUR], scale = table->scale[row];
    int i;
    w->math->table(table->quad + row * SQ_QUADS(panels), SQ_QUADS(panels), numbers);
    for (i = 0; i < panels * SQ_PANEL; ++i) out[i] = numbers[i] * scale;
}

/* Subtract the mean of each row. */
static void sq_centre(float *x, int rows) {
    for (; rows > 0; --rows, x += SQ_WIDTH) {
        float sum[SQ_PANEL] = {0}, mean = 0;
        int i, j;
        for (i = 0; i < SQ_WIDTH; i += SQ_PANEL) for (j = 0; j < SQ_PANEL; ++j) sum[j] += x[i + j];
        for (j = 0; j < SQ_PANEL; ++j) mean += sum[j];
        mean /= (float)SQ_WIDTH;
        for (i = 0; i < SQ_WIDTH; ++i) x[i] -= mean;
    }
}

/* Copy the keys of a head into panels of 16 positions. */
static void sq_turn(const float *keys, int positions, int stride, float *panels) {
    int first, lane, i;
    for (first = 0; first < SQ_PADDED_TO(positions); first += SQ_PANEL, panels += SQ_HEAD * SQ_PANEL)
        for (lane = 0; lane < SQ_PANEL; ++lane) {
            const float *key = keys + (long)(first + lane) * stride;
            float *out = panels + lane;
            if (first + lane < positions) for (i = 0; i < SQ_HEAD; ++i) out[i * SQ_PANEL] = key[i];
            else for (i = 0; i < SQ_HEAD; ++i) out[i * SQ_PANEL] = 0;
        }
}

/* Attend from rows of queries of one head to the source; `panels` are its keys. */
static void sq_attend(sq_work *w, const float *query, int query_stride, int rows, const float *panels,
                      const float *values, int value_stride, float *out) {
    sq_rows part;
    int row;
    part.x = query;
    part.out = w->scores;
    part.x_stride = query_stride;
    part.rows = rows;
    part.out_stride = SQ_PADDED;
    part.add = 0;
    sq_multiply(w, &part, SQ_HEAD, panels, SQ_PANEL, SQ_HEAD * SQ_PANEL, SQ_PADDED_TO(w->positions));
    for (row = 0; row < rows; ++row) w->math->soften(w->scores + (long)row * SQ_PADDED, w->positions);
    part.x = w->scores;
    part.out = out;
    part.x_stride = SQ_PADDED;
    part.out_stride = SQ_WIDTH;
    sq_multiply(w, &part, w->positions, values, value_stride, SQ_PANEL, SQ_HEAD);
}

static void sq_feed(sq_work *w, const sq_layer *layer, int rows) {
    w->math->unit(w->x, rows, w->unit);
    sq_apply(w, &layer->inner, w->unit, rows, SQ_WIDTH, w->parts, SQ_HIDDEN, 0);
    w->math->gelu(w->parts, (long)rows * SQ_HIDDEN);
    sq_apply(w, &layer->outer, w->parts, rows, SQ_HIDDEN, w->x, SQ_WIDTH, 1);
}

/* Encode the source in `w->x`; its states, scaled to length 1, remain in `w->unit`. */
static void sq_encode(sq_work *w) {
    int rows = w->positions, layer, head, position;
    float *panels = w->keys; /* free until the decoder's keys are written */
    for (layer = 0; layer < SQ_LAYERS; ++layer) {
        w->math->unit(w->x, rows, w->unit);
        sq_apply(w, &sq_encoder[layer].words, w->unit, rows, SQ_WIDTH, w->parts, 3 * SQ_WIDTH, 0);
        for (head = 0; head < SQ_HEADS; ++head) {
            const float *query = w->parts + head * SQ_HEAD;
            sq_turn(query + SQ_WIDTH, rows, 3 * SQ_WIDTH, panels);
            sq_attend(w, query, 3 * SQ_WIDTH, rows, panels, query + 2 * SQ_WIDTH, 3 * SQ_WIDTH,
                      w->unit + head * SQ_HEAD);
        }
        sq_apply(w, &sq_encoder[layer].out, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
        sq_feed(w, &sq_encoder[layer], rows);
    }
    w->math->unit(w->x, rows, w->unit);
    for (layer = 0; layer < SQ_DEPTH; ++layer) {
        sq_apply(w, &sq_pairs[layer], w->unit, rows, SQ_WIDTH, w->parts, 2 * SQ_WIDTH, 0);
        for (head = 0; head < SQ_HEADS; ++head)
            sq_turn(w->parts + head * SQ_HEAD, rows, 2 * SQ_WIDTH,
                    w->keys + (long)(layer * SQ_HEADS + head) * SQ_HEAD * SQ_PADDED);
        for (position = 0; position < rows; ++position)
            memcpy(w->values + ((long)layer * SQ_POSITIONS + position) * SQ_WIDTH,
                   w->parts + (long)position * 2 * SQ_WIDTH + SQ_WIDTH, SQ_WIDTH * sizeof(float));
    }
}

static float *sq_pair(sq_work *w, int layer, int word, int hypothesis) {
    return w->past + (((long)layer * SQ_LONGEST + word) * SQ_BEAM + hypothesis) * 2 * SQ_WIDTH;
}

/* Attend from the query of one hypothesis to its words so far; `path` names the hypotheses that read them. */
static void sq_recall(sq_work *w, int layer, const float *query, const uint16_t *path, int words, float *out) {
    float scores[SQ_HEADS][SQ_PADDED_TO(SQ_LONGEST)];
    int word, head, i;
    for (word = 0; word < words; ++word) {
        const float *keys = sq_pair(w, layer, word, path[word]);
        for (head = 0; head < SQ_HEADS; ++head)
            scores[head][word] = w->math->dot(query + head * SQ_HEAD, keys + head * SQ_HEAD, SQ_HEAD);
    }
    for (head = 0; head < SQ_HEADS; ++head) w->math->soften(scores[head], words);
    for (i = 0; i < SQ_WIDTH; ++i) out[i] = 0;
    for (word = 0; word < words; ++word) {
        const float *values = sq_pair(w, layer, word, path[word]) + SQ_WIDTH;
        for (head = 0; head < SQ_HEADS; ++head)
            w->math->add(out + head * SQ_HEAD, values + head * SQ_HEAD, scores[head][word], SQ_HEAD);
    }
}

/* Read one word for each hypothesis, whose vectors are in `w->x`, at position `word`; `first` is the number of the first
 * one. The states of the first `states` of them, scaled to length 1, are then in `w->unit`; of the others, only the keys
 * and values that later words need are computed. */
static void sq_decode_words(sq_work *w, const sq_hypothesis *hypotheses, int rows, int word, int first, int states) {
    int layer, row, head;
    for (row = 0; row < rows; ++row) {
        const float *position = sq_positions + (long)word * SQ_WIDTH;
        int i;
        for (i = 0; i < SQ_WIDTH; ++i) w->x[(long)row * SQ_WIDTH + i] += position[i];
    }
    for (layer = 0; layer < SQ_DEPTH; ++layer) {
        w->math->unit(w->x, rows, w->unit);
        sq_apply(w, &sq_decoder[layer].words, w->unit, rows, SQ_WIDTH, w->parts, 3 * SQ_WIDTH, 0);
        for (row = 0; row < rows; ++row)
            memcpy(sq_pair(w, layer, word, first + row), w->parts + (long)row * 3 * SQ_WIDTH + SQ_WIDTH,
                   2 * SQ_WIDTH * sizeof(float));
        if (layer == SQ_DEPTH - 1) rows = states;
        if (!rows) return;
        for (row = 0; row < rows; ++row)
            sq_recall(w, layer, w->parts + (long)row * 3 * SQ_WIDTH, hypotheses[row].path, word + 1,
                      w->unit + (long)row * SQ_WIDTH);
        sq_apply(w, &sq_decoder[layer].out, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
        w->math->unit(w->x, rows, w->unit);
        sq_apply(w, &sq_decoder[layer].cross_query, w->unit, rows, SQ_WIDTH, w->parts, SQ_WIDTH, 0);
        for (head = 0; head < SQ_HEADS; ++head)
            sq_attend(w, w->parts + head * SQ_HEAD, SQ_WIDTH, rows,
                      w->keys + (long)(layer * SQ_HEADS + head) * SQ_HEAD * SQ_PADDED,
                      w->values + (long)layer * SQ_POSITIONS * SQ_WIDTH + head * SQ_HEAD, SQ_WIDTH,
                      w->unit + head * SQ_HEAD);
        sq_apply(w, &sq_decoder[layer].cross_out, w->unit, rows, SQ_WIDTH, w->x, SQ_WIDTH, 1);
        sq_feed(w, &sq_decoder[layer], rows);
    }
    w->math->unit(w->x, rows, w->unit);
}
