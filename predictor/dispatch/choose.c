/* How a shape's members are found; the tables above are those of this dispatcher. */

static int sq_digit(const char *text) {
    return *text - 33 - (*text > 34) - (*text > 63) - (*text > 92);
}

static void sq_score(sq_state *s, int64_t *score) {
    int tree, node, i;
    int64_t fact[SQ_FACTS + 1];
    sq_facts(s, fact);
    for (i = 0; i < SEQTUNE_MEMBERS; ++i) score[i] = 0;
    for (tree = 0; tree < SQ_TREES; ++tree) {
        const sq_tree *t = sq_trees + tree;
        const char *text;
        for (node = 0; node < t->nodes;) {
            text = t->text + 2 * node;
            i = sq_digit(text) * SQ_DIGITS + sq_digit(text + 1);
            node = 2 * node + 1 + (fact[sq_tests[i].fact] > sq_tests[i].threshold);
        }
        text = t->text + 2 * t->nodes + (node - t->nodes) * ((SEQTUNE_MEMBERS + 1) / 2);
        for (i = 0; i < SEQTUNE_MEMBERS; ++i) {
            int pair = sq_digit(text + i / 2);
            score[i] += t->scale * ((i % 2 ? pair % (2 * SQ_LEVELS + 1) : pair / (2 * SQ_LEVELS + 1)) - SQ_LEVELS);
        }
    }
}

seqtune_choice seqtune_choose(const seqtune_shape *shape) {
    seqtune_choice choice = {-1, -1, 0, 0};
    sq_state state;
    int64_t score[SEQTUNE_MEMBERS];
    int i;
    memset(&state, 0, sizeof state);
    if (!sq_read(&state, shape)) return choice;
    choice.in_domain = 1;
    sq_score(&state, score);
    for (i = 0; i < SEQTUNE_MEMBERS; ++i) {
        if (!sq_valid(&state, i)) continue;
        if (choice.member < 0 || score[i] < score[choice.member]) {
            choice.second = choice.member;
            choice.member = i;
        } else if (choice.second < 0 || score[i] < score[choice.second]) choice.second = i;
    }
    choice.sure = choice.member >= 0 && (choice.second < 0 || score[choice.second] - score[choice.member] >= SQ_SURE);
    return choice;
}

const char *seqtune_text(int member) {
    return member >= 0 && member < SEQTUNE_MEMBERS ? sq_texts[member] : NULL;
}

static double sq_timed(double (*timing)(void *context, int member, const seqtune_shape *shape), void *context,
                       int member, const seqtune_shape *shape) {
    double warming = timing(context, member, shape);
    return warming >= 0 ? timing(context, member, shape) : -1;
}

int seqtune_race(seqtune_races *races, const seqtune_shape *shape,
                 double (*timing)(void *context, int member, const seqtune_shape *shape), void *context) {
    seqtune_choice choice;
    double first, second;
    int i;
    for (i = 0; i < races->count && i < SEQTUNE_RACED; ++i)
        if (sq_same(&races->shape[i], shape)) return races->member[i];
    choice = seqtune_choose(shape);
    if (choice.second < 0) return choice.member;
    first = sq_timed(timing, context, choice.member, shape);
    second = sq_timed(timing, context, choice.second, shape);
    if (second >= 0 && !(first >= 0 && first <= second)) choice.member = choice.second;
    i = races->count % SEQTUNE_RACED;
    races->shape[i] = *shape;
    races->member[i] = choice.member;
    races->count = races->count < SEQTUNE_RACED * 2 - 1 ? races->count + 1 : SEQTUNE_RACED;
    return choice.member;
}
