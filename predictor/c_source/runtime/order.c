/* The order of the proposals: the weighted mean of the experts' opinions, and the beam's log-probabilities. */

enum { SQ_BY_TREES, SQ_BY_JUDGE, SQ_BY_NEAREST, SQ_BY_FIXED, SQ_BY_PROCESSES, SQ_EXPERTS };

static void sq_order(sq_work *w, sq_state *s, const sq_hypothesis *hypotheses, int count, const sq_neighbours *near,
                     double *posterior) {
    const double (*weights)[SQ_EXPERTS + 1] = sq_weights[!near->known];
    double opinions[SQ_EXPERTS][SQ_PROPOSALS], weight[SQ_EXPERTS], most = -HUGE_VAL, total = 0, beam;
    int has[SQ_EXPERTS] = {0}, expert, row;
    (void)w;
    (void)s;
#if SQ_TREES
    has[SQ_BY_TREES] = sq_ask_trees(w, s, hypotheses, count, opinions[SQ_BY_TREES]);
#endif
#if SQ_JUDGE
    has[SQ_BY_JUDGE] = sq_ask_judge(w, s, hypotheses, count, opinions[SQ_BY_JUDGE]);
#endif
#if SQ_WINNERS
    has[SQ_BY_NEAREST] = sq_ask_winners(s, hypotheses, count, near->entry, near->weight, near->count,
                                        opinions[SQ_BY_NEAREST]);
    if (near->count) has[SQ_BY_FIXED] = sq_ask_winners(s, hypotheses, count, near->portfolio, 0, near->portfolios,
                                                       opinions[SQ_BY_FIXED]);
#endif
#if SQ_PROCESSES
    has[SQ_BY_PROCESSES] = has[SQ_BY_TREES] && sq_ask_processes(w, hypotheses, count, opinions[SQ_BY_PROCESSES]);
#endif
    for (expert = 0; expert < SQ_EXPERTS; ++expert) {
        weight[expert] = weights[0][expert] + weights[1][expert] * near->nearness;
        has[expert] = has[expert] && weights[0][expert] > SQ_NO_WEIGHT;
        if (has[expert] && weight[expert] > most) most = weight[expert];
    }
    for (expert = 0; expert < SQ_EXPERTS; ++expert) {
        weight[expert] = has[expert] ? exp(weight[expert] - most) : 0;
        total += weight[expert];
    }
    beam = exp(weights[0][SQ_EXPERTS] + weights[1][SQ_EXPERTS] * near->nearness);
    for (row = 0; row < count; ++row) {
        double slowness = 0;
        for (expert = 0; expert < SQ_EXPERTS; ++expert)
            if (has[expert]) slowness += weight[expert] / total * opinions[expert][row];
        posterior[row] = -beam * hypotheses[row].cost - slowness / SQ_TAU;
    }
}
