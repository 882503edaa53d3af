/* Boosted trees estimate log(time / best time) of whole configurations, up to a constant. The configurations of a kernel
 * descend a tree together: a node has the set of those that reach it, as bits of 64. A split has the set of those whose
 * feature is below its threshold. */

#define SQ_LEAVES 65536 /* codes of leaves: their values in 16 bits */
#define SQ_SUBTREES 64  /* sizes of a left subtree: an odd number of nodes */
#define SQ_DEEPEST_TREE 64
#define SQ_TREE 256 /* bytes of a usual tree, which are fetched from memory in time */

/* A number as trees read it. */
static float sq_feature(double number) {
    if (!(number >= -FLT_MAX)) return number < 0 ? -FLT_MAX : -1.0f; /* NaN: unknown */
    return number > FLT_MAX ? FLT_MAX : (float)number;
}

/* The share of a number in what the device has; -1: the device lacks it. */
static double sq_share(double number, int64_t divisor) { return divisor ? number / (double)divisor : -1; }

/* Read a feature of the configuration that is loaded. The kinds are those of `trees.py`. */
static float sq_read_column(const sq_state *s, const sq_column *column, const uint16_t *index) {
    int first = column->first, second = column->second, code;
    double several, size, length;
    float tiles;
    switch (column->kind) {
    case 0: return sq_feature(sq_source(s, first));
    case 1: return (float)index[first];
    case 2:
        for (code = 0; sq_declared[second + code] != -2 && sq_declared[second + code] != s->i[first];) ++code;
        return (float)code;
    case 3:
    case 4: /* the size when it is padded to tiles, relative to it, and the number of tiles */
        if (!s->known[first] || (!s->big[first] && s->i[first] <= 0)) return -1;
        size = sq_value(s, first, 0);
        length = sq_source(s, second);
        tiles = (float)size / (float)(length > 1 ? length : 1);
        return column->kind == 4 ? sq_feature((double)tiles)
                                 : sq_feature((double)(ceilf(tiles) * (float)(length > 1 ? length : 1) / (float)size));
    case 5: return s->known[second] ? sq_feature(sq_source(s, first)) : -1;
    case 6: return s->known[first] && s->i[first] >= 0 ? (float)sq_word_codes[s->i[first]] : -1;
    case 7: return sq_feature(sq_share(sq_source(s, first), s->i[second]));
    case 8: /* microseconds of a task at the peak of one worker */
        size = sq_machine_ratio(s, SQ_PEAK_MICROSECONDS);
        several = (double)(s->i[SQ_THREADS] ? s->i[SQ_THREADS] : s->i[SQ_COMPUTE_UNITS]);
        length = sq_source(s, first);
        return size < 0 ? -1 : sq_feature(size * (several > 1 ? several : 1) / (length > 1 ? length : 1));
    case 9: return sq_feature(sq_machine_ratio(s, first));
    case 10: return (float)(s->i[first] < SQ_MOST_THREADS ? s->i[first] : SQ_MOST_THREADS);
    default: return -1;
    }
}

/* The number of half the precision whose bits these are. */
static float sq_half(uint32_t bits) {
    uint32_t sign = (bits & 0x8000) << 16, size = bits & 0x7FFF;
    if (size >= 0x400) return sq_float(sign | ((size << 13) + (UINT32_C(112) << 23)));
    return (sign ? -0x1p-24f : 0x1p-24f) * (float)size;
}

/* The number of thresholds of a split's feature, from `begin` on, that are not above a number. */
static int sq_thresholds_up_to(const sq_split *split, int begin, float number) {
    int end = split->count;
    while (begin < end) {
        int middle = (begin + end) / 2;
        if (number < sq_float(sq_number(split->thresholds + 5 * middle, 5))) end = middle;
        else begin = middle + 1;
    }
    return begin;
}

/* Find out which configurations are below each threshold. */
static void sq_divide(sq_descent *d, const sq_split *split, const int *rows, int count) {
    uint64_t *below = d->below;
    for (; split->thresholds; below += split++->count) {
        int row, place, distinct = 0, begin = 0, end;
        float value[SQ_TOGETHER]; /* ascending */
        uint64_t equal[SQ_TOGETHER], set = 0;
        if (split[1].thresholds) SQ_FETCH(split[1].thresholds + 5 * (split[1].count / 2));
        for (row = 0; row < count; ++row) {
            float number = d->features[rows[row]][split->feature];
            for (place = distinct; place > 0 && value[place - 1] > number;) --place;
            if (!place || value[place - 1] < number) {
                memmove(value + place + 1, value + place, (size_t)(distinct - place) * sizeof *value);
                memmove(equal + place + 1, equal + place, (size_t)(distinct++ - place) * sizeof *equal);
                value[place] = number;
                equal[place++] = 0;
            }
            equal[place - 1] |= UINT64_C(1) << rows[row];
        }
        for (row = 0; row < distinct; set |= equal[row++])
            for (end = sq_thresholds_up_to(split, begin, value[row]); begin < end; ++begin) below[begin] = set;
        for (; begin < split->count; ++begin) below[begin] = set;
    }
}

/* The number of the lowest bit that is set. */
static int sq_lowest(uint64_t set) {
#if defined(__GNUC__)
    return __builtin_ctzll(set);
#else
    int number = 0;
    while (!(set >> number & 1)) ++number;
    return number;
#endif
}

/* Add what a tree predicts for the configurations `set`. */
static void sq_descend(const sq_descent *d, const char *node, uint64_t set, float *sums) {
    struct { const char *node; uint64_t set; } waiting[SQ_DEEPEST_TREE];
    int count = 0;
    for (;;) {
        uint32_t code = (uint32_t)((node[0] * SQ_BASE + node[1]) * SQ_BASE + node[2] - 35 * (SQ_BASE * (SQ_BASE + 1) + 1));
        uint64_t left, right;
        const char *other;
        if (code < SQ_LEAVES) {
            float value = sq_half(code);
            for (; set; set &= set - 1) sums[sq_lowest(set)] += value;
            if (!count) return;
            node = waiting[--count].node;
            set = waiting[count].set;
            continue;
        }
        code -= SQ_LEAVES;
        left = set & d->below[code / SQ_SUBTREES];
        right = set & ~left;
        node += 3;
        other = node + 3 * (2 * (code % SQ_SUBTREES) + 1);
        if (left && right) {
            waiting[count].node = other;
            waiting[count++].set = right;
        }
        if (!left) node = other;
        set = left ? left : right;
    }
}

/* Estimate the slowness of configurations, all of whose kernels have trees. */
static void sq_ask_trees(sq_work *w, sq_state *s, const sq_proposal *proposals, int count, double *slowness) {
    sq_descent *d = &w->descent;
    int row, space;
    for (row = 0; row < count; ++row) {
        const sq_kernel *kernel = &sq_kernels[proposals[row].space];
        const sq_column *column = sq_kernel_trees[proposals[row].space].columns;
        float *feature = d->features[row];
        sq_load(s, kernel, proposals[row].index, kernel->parameters);
        for (; column->kind >= 0; ++column) *feature++ = sq_read_column(s, column, proposals[row].index);
    }
    for (space = 0; space < SQ_KERNELS; ++space) {
        const sq_forest *forest = sq_kernel_trees[space].forests;
        int rows[SQ_TOGETHER], own = 0, forests = 0;
        uint64_t set = 0;
        for (row = 0; row < count; ++row) {
            if (proposals[row].space != space) continue;
            set |= UINT64_C(1) << row;
            slowness[row] = 0;
            rows[own++] = row;
        }
        if (!own) continue;
        for (; forest->splits; ++forest, ++forests) {
            const char *const *tree;
            float sums[SQ_TOGETHER] = {0};
            sq_divide(d, forest->splits, rows, own);
            for (tree = forest->trees; *tree; ++tree) {
                int byte;
                if (tree[1] && tree[2]) for (byte = 0; byte < SQ_TREE; byte += 64) SQ_FETCH(tree[2] + byte);
                sq_descend(d, *tree, set, sums);
            }
            for (row = 0; row < own; ++row) slowness[rows[row]] += (double)sums[rows[row]];
        }
        for (row = 0; row < own; ++row) slowness[rows[row]] /= forests;
    }
}
