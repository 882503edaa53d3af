/* The public function. */

typedef struct { sq_work work; sq_state state; sq_hypothesis beam[SQ_BEAM], other[SQ_BEAM];
                 sq_candidate candidates[SQ_CANDIDATES]; sq_proposal proposals[SQ_PROPOSALS]; } sq_scratch;

/* Whether a configuration stands before another one where all are listed. */
static int sq_listed_before(const sq_proposal *a, const sq_proposal *b) {
    int column = 0;
    if (a->space != b->space) return a->space < b->space;
    while (column + 1 < sq_kernels[a->space].parameters && a->index[column] == b->index[column]) ++column;
    return a->index[column] < b->index[column];
}

int seqtune_predict_in(void *scratch, size_t bytes, const seqtune_problem *problem, const seqtune_device *device,
                       seqtune_configuration *out, int count) {
    sq_scratch *all = scratch;
    double ordered[SQ_PROPOSALS], total = 0, mass, most;
    int result, row, rank, order[SQ_PROPOSALS], knows[SQ_EXPERTS];
    if (!scratch || !problem || !device || !out) return SEQTUNE_ERROR_NULL;
    if (count < 1 || count > SEQTUNE_MOST) return SEQTUNE_ERROR_COUNT;
    if (bytes < sizeof *all || (uintptr_t)scratch % sizeof(double)) return SEQTUNE_ERROR_SCRATCH;
    all->state.fault = 0;
    all->state.left = SQ_MOST_CHECKS;
    memset(all->state.big, 0, sizeof all->state.big);
    memset(all->state.known, 0, sizeof all->state.known);
    memset(all->state.index, 0, sizeof all->state.index);
    result = sq_read_device(&all->state, device);
    if (!result) result = sq_read_problem(&all->state, problem);
    if (!result && all->state.fault) result = SEQTUNE_ERROR_ARITHMETIC;
    if (result) return result;
    all->work.math = sq_best_math();
    all->work.keeps = 0;
    sq_read_source(&all->work, &all->state);
    result = sq_find_all(&all->state, all->proposals); /* of a small space, experts order all */
    if (!result || !sq_know(all->proposals, result, knows))
        result = sq_search(&all->work, &all->state, all->beam, all->other, all->candidates,
                           count > SQ_USUAL ? count : SQ_USUAL, all->proposals);
    if (result < 0) return result;
    for (row = 0; row < result; ++row) total += exp(-all->proposals[row].cost);
    mass = log(total);
    sq_order(&all->work, &all->state, all->proposals, result, ordered);
    for (row = 0; row < result; ++row) { /* most probable first, equal ones as they are listed */
        const sq_proposal *own = &all->proposals[row];
        for (rank = row; rank > 0; --rank) {
            int other = order[rank - 1];
            if (ordered[other] > ordered[row]) break;
            if (!(ordered[other] < ordered[row]) && sq_listed_before(&all->proposals[other], own)) break;
            order[rank] = other;
        }
        order[rank] = row;
    }
    most = ordered[order[0]];
    for (row = 0, total = 0; row < result; ++row) total += exp(ordered[row] - most);
    for (row = 0, most += log(total); row < result; ++row) ordered[row] -= most;
    if (result > count) result = count;
    for (rank = 0; rank < result; ++rank) {
        const sq_proposal *best = &all->proposals[order[rank]];
        const sq_kernel *kernel = &sq_kernels[best->space];
        int column;
        memset(&out[rank], 0, sizeof out[rank]);
        out[rank].kernel = kernel->name;
        out[rank].count = kernel->parameters;
        out[rank].log_probability = ordered[order[rank]] + mass;
        for (column = 0; column < kernel->parameters; ++column) {
            const sq_parameter *parameter = &kernel->parameter[column];
            int64_t value = parameter->values[best->index[column]];
            out[rank].setting[column].name = parameter->name;
            if (parameter->is_word) out[rank].setting[column].word = sq_words[value];
            else {
                out[rank].setting[column].number = value;
#if SQ_FRACTIONS
                out[rank].setting[column].fraction =
                    parameter->fractions ? parameter->fractions[best->index[column]] : (double)value;
#endif
            }
        }
    }
    return result;
}

int seqtune_predict(const seqtune_problem *problem, const seqtune_device *device, seqtune_configuration *out,
                    int count) {
    union { sq_scratch all; double aligned; } scratch;
    return seqtune_predict_in(&scratch, sizeof scratch, problem, device, out, count);
}

size_t seqtune_scratch_bytes(void) { return sizeof(sq_scratch); }
