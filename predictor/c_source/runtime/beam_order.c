/* The order of the beam is that of the proposals. */

static void sq_order(sq_work *w, sq_state *s, const sq_hypothesis *hypotheses, int count, double *posterior) {
    int row;
    (void)w;
    (void)s;
    for (row = 0; row < count; ++row) posterior[row] = -hypotheses[row].cost;
}
