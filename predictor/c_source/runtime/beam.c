/* The beam search: the most probable valid configurations. */

static int sq_before(const sq_hypothesis *parents, const sq_candidate *candidates, const sq_choice *a,
                     const sq_choice *b) {
    const sq_hypothesis *first = &parents[a->parent], *second = &parents[b->parent];
    int space, other, column;
    if (a->cost != b->cost) return a->cost < b->cost;
    space = a->candidate < 0 ? first->space : candidates[a->candidate].space;
    other = b->candidate < 0 ? second->space : candidates[b->candidate].space;
    if (space != other) return space < other;
    for (column = 0; column < SQ_PARAMETERS; ++column) {
        int x = a->candidate >= 0 && column == first->length ? candidates[a->candidate].value : first->index[column];
        int y = b->candidate >= 0 && column == second->length ? candidates[b->candidate].value : second->index[column];
        if (x != y) return x < y;
        if ((a->candidate >= 0 && column == first->length) || (b->candidate >= 0 && column == second->length)) break;
    }
    return 0;
}

/* Insert a choice into the sorted choices of at most `width`. */
static int sq_insert(const sq_hypothesis *parents, const sq_candidate *candidates, sq_choice *choices, int count,
                     int width, sq_choice choice) {
    int place = count;
    if (count == width && !sq_before(parents, candidates, &choice, &choices[count - 1])) return count;
    if (count == width) place = --count;
    while (place > 0 && sq_before(parents, candidates, &choice, &choices[place - 1])) {
        choices[place] = choices[place - 1];
        --place;
    }
    choices[place] = choice;
    return count + 1;
}

/* The costs of the candidates of one hypothesis, from their scores. */
static void sq_costs(const sq_hypothesis *hypothesis, sq_candidate *candidates, int count) {
    double most = -HUGE_VAL, sum = 0;
    int i;
    for (i = 0; i < count; ++i) {
        if (!(candidates[i].score > -1e9f)) candidates[i].score = -1e9f;
        if (candidates[i].score > 1e9f) candidates[i].score = 1e9f;
        if ((double)candidates[i].score > most) most = (double)candidates[i].score;
    }
    for (i = 0; i < count; ++i) sum += exp((double)candidates[i].score - most);
    for (i = 0; i < count; ++i) candidates[i].cost = hypothesis->cost + (log(sum) - ((double)candidates[i].score - most));
}

static void sq_octaves(sq_state *s, const sq_kernel *kernel, int column, sq_candidate *candidate) {
    int i, count = 0;
    kernel->resolve(s, column);
    for (i = 0; i < kernel->quantities; ++i)
        if (kernel->quantity[i].column == column) candidate->octave[count++] = sq_octave(s, &kernel->quantity[i]);
}

static int sq_kernel_candidates(sq_state *s, sq_candidate *candidates) {
    int space, count = 0;
    for (space = 0; space < SQ_KERNELS; ++space) {
        const sq_kernel *kernel = &sq_kernels[space];
        sq_proposal first;
        int matches = sq_count_kernel(s, space, 1, &first);
        if (s->fault) return 0;
        if (!matches) continue;
        candidates[count].parent = 0;
        candidates[count].space = candidates[count].value = space;
        candidates[count].word = kernel->word;
        candidates[count].complete = matches == 1;
        candidates[count].score = 0;
        sq_octaves(s, kernel, -1, &candidates[count++]);
    }
    return count;
}

static int sq_value_candidates(sq_state *s, const sq_hypothesis *hypothesis, int parent, sq_candidate *candidates) {
    const sq_kernel *kernel = &sq_kernels[hypothesis->space];
    sq_proposal first;
    int column = hypothesis->length, value, count = 0;
    sq_load(s, kernel, hypothesis->index, column);
    for (value = 0; value < kernel->parameter[column].count; ++value) {
        int matches = sq_count(s, kernel, column, value, 1, &first);
        if (s->fault) return 0;
        if (!matches) continue;
        candidates[count].parent = parent;
        candidates[count].space = hypothesis->space;
        candidates[count].value = value;
        candidates[count].word = kernel->words[column][value];
        candidates[count].complete = matches == 1;
        candidates[count].score = 0;
        sq_octaves(s, kernel, column, &candidates[count++]);
    }
    return count;
}

/* Make the hypothesis that a choice stands for. */
static void sq_make(sq_state *s, const sq_hypothesis *parent, const sq_candidate *candidate, int step,
                    sq_hypothesis *made) {
    const sq_kernel *kernel = &sq_kernels[candidate->space];
    *made = *parent;
    made->cost = candidate->cost;
    made->space = candidate->space;
    made->complete = candidate->complete;
    made->word = candidate->word;
    if (step > 0) made->index[made->length++] = (uint16_t)candidate->value;
    if (made->complete) { /* the other values are the only ones that are valid */
        sq_proposal only;
        memcpy(only.index, made->index, sizeof only.index);
        sq_load(s, kernel, made->index, made->length);
        sq_count(s, kernel, made->length - 1, candidate->value, 1, &only);
        memcpy(made->index, only.index, sizeof only.index);
    }
}

/* Write the candidates that follow `rows` hypotheses from `begin` on, with their costs; the result is their number.
 * Where only one word can follow, its probability is 1 without a score. */
static int sq_follow(sq_work *w, sq_state *s, sq_hypothesis *now, int begin, int rows, sq_candidate *candidates,
                     int step) {
    int row, end, total = 0, scored = 0, several = 0;
    for (row = 0; row < rows; ++row) { /* those that several words can follow move to the front */
        int matches = step ? sq_value_candidates(s, &now[begin + row], begin + row, candidates + total)
                         : sq_kernel_candidates(s, candidates);
        if (s->fault) return 0;
        if (matches > 1) {
            sq_hypothesis moved = now[begin + row];
            int i;
            if (several < row) {
                sq_candidate single[SQ_ROWS_OF_BEAM];
                memcpy(single, candidates + scored, (size_t)(total - scored) * sizeof *single);
                memmove(candidates + scored, candidates + total, (size_t)matches * sizeof *candidates);
                memcpy(candidates + scored + matches, single, (size_t)(total - scored) * sizeof *single);
                memmove(&now[begin + several + 1], &now[begin + several], (size_t)(row - several) * sizeof *now);
                now[begin + several] = moved;
                for (i = scored; i < scored + matches; ++i) candidates[i].parent = begin + several;
                for (i = scored + matches; i < total + matches; ++i) ++candidates[i].parent;
            }
            ++several;
            scored += matches;
        }
        total += matches;
    }
    for (row = 0; row < rows; ++row) now[begin + row].path[step] = (uint16_t)(begin + row);
    sq_inputs(w, now + begin, rows);
    sq_decode_words(w, now + begin, rows, step, begin, several);
    if (several) sq_score(w, now, begin, several, candidates, scored, step - 1);
    for (row = 0; row < total; row = end) {
        for (end = row; end < total && candidates[end].parent == candidates[row].parent; ++end) {}
        sq_costs(&now[candidates[row].parent], candidates + row, end - row);
    }
    return total;
}

/* Search the best `width` configurations, most probable first; the result is their number, or an error. */
static int sq_search(sq_work *w, sq_state *s, sq_hypothesis *now, sq_hypothesis *next, sq_candidate *candidates,
                     int width, sq_proposal *proposals) {
    int step, row, count = 1;
    memset(now, 0, sizeof *now);
    now->word = SQ_BEGIN;
    sq_keep(w);
    for (step = 0; ; ++step) {
        sq_choice choices[SQ_BEAM];
        sq_hypothesis *swap;
        int live = 0, total = 0, chosen = 0, begin, rows;
        for (row = 0; row < count; ++row) if (!now[row].complete) next[live++] = now[row];
        if (!live) break;
        for (begin = live, row = 0; row < count; ++row) if (now[row].complete) next[begin++] = now[row];
        swap = now;
        now = next; /* hypotheses that are not complete stand first, most probable first */
        next = swap;
        for (row = live; row < count; ++row) {
            sq_choice choice = {0, -1, 0};
            choice.parent = row;
            choice.cost = now[row].cost;
            chosen = sq_insert(now, candidates, choices, chosen, width, choice);
        }
        for (begin = 0; begin < live; begin += rows) {
            int fresh;
            /* costs only rise: what follows a hypothesis that costs more than all choices cannot be chosen */
            for (rows = 0; rows < SQ_ROWS_OF_BEAM && begin + rows < live; ++rows)
                if (chosen == width && now[begin + rows].cost > choices[width - 1].cost) break;
            if (!rows) break;
            fresh = sq_follow(w, s, now, begin, rows, candidates + total, step);
            if (s->fault) return s->fault == 2 ? SEQTUNE_ERROR_TOO_LARGE : SEQTUNE_ERROR_ARITHMETIC;
            for (row = total, total += fresh; row < total; ++row) {
                sq_choice choice = {0, 0, 0};
                choice.parent = candidates[row].parent;
                choice.candidate = row;
                choice.cost = candidates[row].cost;
                chosen = sq_insert(now, candidates, choices, chosen, width, choice);
            }
        }
        if (!total) return SEQTUNE_ERROR_NO_KERNEL;
        for (row = 0; row < chosen; ++row) {
            if (choices[row].candidate < 0) { next[row] = now[choices[row].parent]; continue; }
            sq_make(s, &now[choices[row].parent], &candidates[choices[row].candidate], step, &next[row]);
            sq_add_sums(w, now, &candidates[choices[row].candidate], step - 1, &next[row]);
        }
        if (s->fault) return SEQTUNE_ERROR_ARITHMETIC;
        swap = now;
        now = next;
        next = swap;
        count = chosen;
    }
    for (row = 0; row < count; ++row) {
        proposals[row].cost = now[row].cost;
        proposals[row].space = now[row].space;
        memcpy(proposals[row].index, now[row].index, sizeof now[row].index);
    }
    return count;
}
