/* The order of the proposals: the plain mean of the experts' opinions; the beam's log-probabilities without any. */

enum { SQ_BY_TREES, SQ_BY_JUDGE, SQ_BY_PROCESSES, SQ_EXPERTS };

static void sq_order(sq_work *w, sq_state *s, const sq_hypothesis *hypotheses, int count, double *posterior) {
    double opinions[SQ_EXPERTS][SQ_PROPOSALS];
    int has[SQ_EXPERTS] = {0}, expert, row, asked = 0;
    (void)w;
    (void)s;
#if SQ_TREES
    has[SQ_BY_TREES] = sq_ask_trees(w, s, hypotheses, count, opinions[SQ_BY_TREES]);
#endif
#if SQ_JUDGE
    has[SQ_BY_JUDGE] = sq_ask_judge(w, s, hypotheses, count, opinions[SQ_BY_JUDGE]);
#endif
#if SQ_PROCESSES
    has[SQ_BY_PROCESSES] = has[SQ_BY_TREES] && sq_ask_processes(w, hypotheses, count, opinions[SQ_BY_PROCESSES]);
#endif
    for (expert = 0; expert < SQ_EXPERTS; ++expert) asked += has[expert];
    for (row = 0; row < count; ++row) {
        double slowness = 0;
        for (expert = 0; expert < SQ_EXPERTS; ++expert) if (has[expert]) slowness += opinions[expert][row];
        posterior[row] = asked ? -slowness / asked / SQ_TAU : -hypotheses[row].cost;
    }
}
