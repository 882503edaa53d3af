/* The table of winners: what was measured for the training problems that are nearest to a problem. */

static float sq_number_at(const char *digits) { return sq_float(sq_number(digits, 5)); }

/* log2(1 + x) as the table has it; negative numbers keep their sign. */
static float sq_point(double number) {
    double size = log2(1 + fabs(number));
    return (float)(number < 0 ? -size : size);
}

/* The squared distances of the device to those of the table; the result is whether it is one of them. A device that has
 * the facts of one is that one. */
static int sq_device_distances(const sq_state *s, const sq_group *group, float *distances) {
    int64_t architecture = s->i[SQ_ARCHITECTURE];
    int device, fact;
    for (device = 0; device < group->devices; ++device) {
        int same = architecture == 0 || architecture == group->architectures[device];
        float sum = 0;
        for (fact = 0; fact < group->facts; ++fact) {
            int slot = group->fact_slots[fact];
            float away;
            if (slot < 0 || !s->known[slot]) continue;
            away = sq_number_at(group->device_facts[device] + 5 * fact) - sq_point((double)s->i[slot]);
            if (!(away == away)) continue; /* a fact that the other device lacks */
            if (fabsf(away) > 1e-4f) same = 0;
            away /= group->deviation[fact];
            sum += away * away;
        }
        if (same) {
            memcpy(distances, group->between + (long)device * group->devices,
                   (size_t)group->devices * sizeof *distances);
            distances[device] = 0;
            return 1;
        }
        distances[device] = 1 + (group->facts ? sum / (float)group->facts : 0);
    }
    return 0;
}

/* The distance of the problem of a point to that of an entry. */
static float sq_distance(const sq_state *s, const sq_group *group, const float *point, const float *devices,
                         const char *entry) {
    float sum = devices[sq_number(entry, 2)];
    int i;
    entry += 7;
    for (i = 0; i < group->numbers; ++i, entry += 5) {
        float away = sq_number_at(entry) - point[i];
        if (away == away) sum += away * away;
    }
    for (i = 0; i < group->words; ++i, entry += 3) {
        int slot = group->word_slots[i];
        int64_t word = slot >= 0 && s->known[slot] ? s->i[slot] + 2 : 0;
        if ((int64_t)sq_number(entry, 3) != word) sum += SQ_WORD_APART;
    }
    return sqrtf(sum) / group->unit;
}

/* Whether a problem of this kind of words is among the entries: each of its words occurs there. */
static int sq_words_occur(const sq_state *s, const sq_group *group) {
    int i, entry;
    for (i = 0; i < group->words; ++i) {
        int slot = group->word_slots[i];
        int64_t word = slot >= 0 && s->known[slot] ? s->i[slot] + 2 : 0;
        for (entry = 0; entry < group->problems; ++entry)
            if ((int64_t)sq_number(group->entries[entry] + 7 + 5 * group->numbers + 3 * i, 3) == word) break;
        if (entry == group->problems) return 0;
    }
    return 1;
}

static const sq_group *sq_own_group(const sq_state *s) {
    int number;
    for (number = 0; number < (int)(sizeof sq_groups / sizeof *sq_groups); ++number)
        if (sq_groups[number].backend == s->i[SQ_BACKEND] && sq_groups[number].operation == s->operation)
            return &sq_groups[number];
    return 0;
}

/* Find the nearest training problems and the portfolio. */
static void sq_find_neighbours(const sq_state *s, const sq_group *group, sq_neighbours *near) {
    int covered = sq_words_occur(s, group);
    float point[SQ_NUMBERS_OF_PROBLEM] = {0}, devices[SQ_DEVICES] = {0}, away[SQ_NEIGHBOURS] = {0};
    double total = 0;
    int i, place;
    for (i = 0; i < group->numbers; ++i) {
        int slot = group->number_slots[2 * i];
        float size = slot < 0 || !s->known[slot] ? (float)sq_nan()
                   : sq_point(sq_source(s, group->number_slots[2 * i + 1]));
        if (size < group->least[i] || size > group->most[i]) covered = 0;
        point[i] = size / group->scale[i];
    }
    near->known = sq_device_distances(s, group, devices) && (covered || !SQ_BEYOND);
    for (i = 0; i < group->problems; ++i) {
        float distance = sq_distance(s, group, point, devices, group->entries[i]);
        if (near->count == SQ_NEIGHBOURS && !(distance < away[near->count - 1])) continue;
        place = near->count < SQ_NEIGHBOURS ? near->count++ : near->count - 1;
        for (; place > 0 && away[place - 1] > distance; --place) {
            away[place] = away[place - 1];
            near->entry[place] = near->entry[place - 1];
        }
        away[place] = distance;
        near->entry[place] = i;
    }
    for (i = 0; i < near->count; ++i) total += near->weight[i] = exp(((double)away[0] - (double)away[i]) / SQ_REACH);
    for (i = 0; i < near->count; ++i) near->weight[i] /= total;
    near->nearness = near->count ? exp(-(double)away[0]) : 0;
    for (place = 0; place < 2 && !near->portfolios; ++place) /* of the device, or else all */
        for (i = group->problems; i < group->problems + group->portfolios; ++i)
            if (place || !(devices[sq_number(group->entries[i], 2)] > 0)) near->portfolio[near->portfolios++] = i;
}

static int sq_is_valid(sq_state *s, int space, const uint16_t *index) {
    const sq_kernel *kernel = &sq_kernels[space];
    int column;
    if (sq_kernel_operations[space] != s->operation || !kernel->solves(s)) return 0;
    kernel->resolve(s, -1);
    if (kernel->check(s, -1)) return 0;
    for (column = 0; column < kernel->parameters; ++column) {
        sq_set(s, &kernel->parameter[column], index[column]);
        if (kernel->check(s, column)) return 0;
    }
    return 1;
}

/* Add a configuration to the proposals unless it is invalid or among them; the result is whether it is valid. */
static int sq_propose(sq_state *s, sq_hypothesis *hypotheses, int *count, int space, const uint16_t *index,
                      double cost) {
    size_t bytes = (size_t)sq_kernels[space].parameters * sizeof *index;
    int row;
    if (!sq_is_valid(s, space, index)) return 0;
    for (row = 0; row < *count; ++row)
        if (hypotheses[row].space == space && !memcmp(hypotheses[row].index, index, bytes)) return 1;
    if (*count == SQ_PROPOSALS) return 1;
    memset(&hypotheses[row], 0, sizeof hypotheses[row]);
    memcpy(hypotheses[row].index, index, bytes);
    hypotheses[row].space = space;
    hypotheses[row].complete = 1;
    hypotheses[row].cost = cost;
    ++*count;
    return 1;
}

static const char *sq_rows_of(const sq_group *group, int entry) {
    return group->entries[entry] + 7 + 5 * group->numbers + 3 * group->words;
}

/* Propose the fastest valid configurations of entries, those of each in turn. */
static void sq_propose_winners(sq_state *s, const sq_group *group, const int *entries, int several, int most,
                               sq_hypothesis *hypotheses, int *count, double cost) {
    struct { int space; uint16_t index[SQ_PARAMETERS + 1]; } chosen[SQ_NEAREST + SQ_FIXED];
    int width = 7 + group->values, turn, i, column, other, found = 0;
    for (turn = 0; turn < SQ_TURNS && turn < group->rows; ++turn)
        for (i = 0; i < several && found < most; ++i) {
            const char *row = sq_rows_of(group, entries[i]) + (long)turn * width;
            int space = (int)sq_number(row, 2) - 1;
            if (space < 0) continue;
            chosen[found].space = space;
            for (column = 0; column < sq_kernels[space].parameters; ++column)
                chosen[found].index[column] = (uint16_t)sq_number(row + 2 + column, 1);
            for (other = 0; other < found; ++other)
                if (chosen[other].space == space && !memcmp(chosen[other].index, chosen[found].index,
                        (size_t)sq_kernels[space].parameters * sizeof *chosen->index)) break;
            if (other == found) found += sq_propose(s, hypotheses, count, space, chosen[found].index, cost);
        }
}

/* Add the other experts' proposals to those of the beam; the result is the number of all, or an error. */
static int sq_join(sq_state *s, sq_hypothesis *hypotheses, int count, sq_neighbours *near) {
    const sq_group *group = sq_own_group(s);
    double cost = 0;
    int row, space;
    for (row = 0; row < count; ++row) if (!row || hypotheses[row].cost > cost) cost = hypotheses[row].cost;
    if (group) {
        sq_find_neighbours(s, group, near);
        sq_propose_winners(s, group, near->entry, near->count, SQ_NEAREST, hypotheses, &count, cost);
        sq_propose_winners(s, group, near->portfolio, near->portfolios > 0, SQ_FIXED, hypotheses, &count, cost);
    }
    for (space = 0; space < SQ_KERNELS; ++space)
        if (sq_defaults[space]) sq_propose(s, hypotheses, &count, space, sq_defaults[space], cost);
    return s->fault ? SEQTUNE_ERROR_ARITHMETIC : count;
}

/* Estimate the slowness of configurations by entries and their weights (0: equal ones): the mean of their most similar
 * measured configurations. The result is 0 without entries. */
static int sq_ask_winners(const sq_state *s, const sq_hypothesis *hypotheses, int count, const int *entries,
                          const double *weights, int several, double *slowness) {
    const sq_group *group = sq_own_group(s);
    double alike[SQ_PARAMETERS + 1];
    int i, row, turn, column;
    if (!several) return 0;
    for (i = 0; i <= SQ_PARAMETERS; ++i) alike[i] = exp(-i / SQ_LIKENESS);
    for (row = 0; row < count; ++row) slowness[row] = 0;
    for (i = 0; i < several; ++i) {
        double sums[SQ_PROPOSALS] = {0}, likes[SQ_PROPOSALS] = {0};
        double typical = (double)sq_number_at(group->entries[entries[i]] + 2);
        const char *digits = sq_rows_of(group, entries[i]);
        for (turn = 0; turn < group->rows; ++turn, digits += 7 + group->values) {
            int space = (int)sq_number(digits, 2) - 1;
            double slow = (double)sq_number_at(digits + 2 + group->values);
            if (space < 0) continue;
            for (row = 0; row < count; ++row) {
                int differ = 0;
                if (hypotheses[row].space != space) continue;
                for (column = 0; column < sq_kernels[space].parameters; ++column)
                    differ += digits[2 + column] != (char)(hypotheses[row].index[column] + 35);
                sums[row] += alike[differ] * slow;
                likes[row] += alike[differ];
            }
        }
        for (row = 0; row < count; ++row)
            slowness[row] += (weights ? weights[i] : 1.0 / several) * (sums[row] + SQ_STRANGER * typical)
                             / (likes[row] + SQ_STRANGER);
    }
    return 1;
}
