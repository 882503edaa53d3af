/* How a shape's members are found; the tables above are those of this dispatcher. */

static int sq_digit(long at) {
    int code = sq_text[at / SQ_PIECE][at % SQ_PIECE];
    if (code == '!') code = 63;
    return code - 35 - (code > 92);
}

static int sq_all(sq_state *s, const short *conditions) {
    for (; *conditions >= 0; ++conditions) if (!sq_holds(s, *conditions)) return 0;
    return 1;
}

static void sq_score(sq_state *s, int64_t *score) {
    int tree, node, i;
    int64_t fact[SQ_FACTS + 1];
    sq_facts(s, fact);
    for (i = 0; i < SQ_MEMBERS; ++i) score[i] = 0;
    for (tree = 0; tree < SQ_TREES; ++tree) {
        const sq_tree *t = sq_trees + tree;
        for (node = 0; node < t->nodes;) {
            long at = t->text + (long)node * SQ_WIDTH;
            int test = SQ_WIDTH == 1 ? sq_digit(at) : sq_digit(at) * SQ_DIGITS + sq_digit(at + 1);
            node = 2 * node + 1 + (fact[sq_test_fact[test]] > sq_threshold[test]);
        }
        for (i = 0; i < SQ_MEMBERS; ++i) {
            long leaf = t->text + (long)t->nodes * SQ_WIDTH + (long)(node - t->nodes) * ((SQ_MEMBERS + 1) / 2);
            int pair = sq_digit(leaf + i / 2);
            score[i] += t->scale * ((i % 2 ? pair % SQ_PER_LEVEL : pair / SQ_PER_LEVEL) - SQ_LEVELS);
        }
    }
}

seqtune_choice seqtune_choose(const seqtune_shape *shape) {
    seqtune_choice choice;
    sq_state state;
    int64_t score[SQ_MEMBERS];
    unsigned char tried[SQ_MEMBERS];
    int round, i, best;
    choice.member = choice.second = -1;
    choice.sure = choice.in_domain = 0;
    memset(&state, 0, sizeof state);
    if (!shape || !sq_read(&state, shape) || !sq_all(&state, sq_rules)) return choice;
    memset(tried, 0, sizeof tried);
    sq_score(&state, score);
    for (round = 0; round < SQ_MEMBERS && choice.second < 0; ++round) {
        for (best = -1, i = 0; i < SQ_MEMBERS; ++i)
            if (!tried[i] && (best < 0 || score[i] < score[best])) best = i;
        tried[best] = 1;
        if (!sq_all(&state, sq_guards[best])) continue;
        if (choice.member < 0) choice.member = best; else choice.second = best;
    }
    choice.in_domain = sq_all(&state, sq_domain);
    choice.sure = choice.in_domain && choice.member >= 0
        && (choice.second < 0 || score[choice.second] - score[choice.member] >= SQ_SURE);
    return choice;
}

const seqtune_setting *seqtune_settings(int member) {
    return member >= 0 && member < SQ_MEMBERS ? sq_settings + member : NULL;
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
