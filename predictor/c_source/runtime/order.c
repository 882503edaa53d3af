/* The order of the proposals: the plain mean of the experts' opinions; the log-probabilities without any. */

enum { SQ_BY_TREES, SQ_BY_JUDGE, SQ_BY_PROCESSES, SQ_EXPERTS };

/* Find out which experts know all these proposals; the result is their number. */
static int sq_know(const sq_proposal *proposals, int count, int *knows) {
    int row;
    knows[SQ_BY_TREES] = SQ_TREES;
    knows[SQ_BY_JUDGE] = SQ_JUDGE > 0;
    knows[SQ_BY_PROCESSES] = SQ_PROCESSES;
    (void)proposals;
    for (row = 0; row < count; ++row) {
#if SQ_TREES
        knows[SQ_BY_TREES] &= sq_kernel_trees[proposals[row].space].columns != 0;
#endif
#if SQ_PROCESSES
        knows[SQ_BY_PROCESSES] &= sq_processes[proposals[row].space].measured != 0;
#endif
    }
    return knows[SQ_BY_TREES] + knows[SQ_BY_JUDGE] + knows[SQ_BY_PROCESSES];
}

static void sq_order(sq_work *w, sq_state *s, const sq_proposal *proposals, int count, double *posterior) {
    double opinions[SQ_EXPERTS][SQ_TOGETHER];
    int knows[SQ_EXPERTS], asked = sq_know(proposals, count, knows), begin, rows, expert, row;
    (void)w;
    (void)s;
    for (begin = 0; begin < count; begin += rows) {
        rows = count - begin < SQ_TOGETHER ? count - begin : SQ_TOGETHER;
#if SQ_TREES
        if (knows[SQ_BY_TREES]) sq_ask_trees(w, s, proposals + begin, rows, opinions[SQ_BY_TREES]);
#endif
#if SQ_JUDGE
        for (row = 0; row < rows; row += SQ_JUDGED)
            sq_ask_judge(w, s, proposals + begin + row, rows - row < SQ_JUDGED ? rows - row : SQ_JUDGED,
                         opinions[SQ_BY_JUDGE] + row);
#endif
#if SQ_PROCESSES /* they read the features of the trees, which know their kernels, too */
        if (knows[SQ_BY_PROCESSES]) sq_ask_processes(w, proposals + begin, rows, opinions[SQ_BY_PROCESSES]);
#endif
        for (row = 0; row < rows; ++row) {
            double slowness = 0;
            for (expert = 0; expert < SQ_EXPERTS; ++expert) if (knows[expert]) slowness += opinions[expert][row];
            posterior[begin + row] = asked ? -slowness / asked / SQ_TAU : -proposals[begin + row].cost;
        }
    }
}
