/* Search spaces: the values that may follow others, found by depth-first search at run time. */

/* Give a parameter one of its values. */
static void sq_set(sq_state *s, const sq_parameter *parameter, int value) {
    if (parameter->fractions) s->d[parameter->slot] = parameter->fractions[value];
    else s->i[parameter->slot] = parameter->values[value];
}

/* Look for configurations that begin with the values of the columns before `column`; keep `most`, stop at the next one.
 * The result is a set of columns: where there is none, changing the values of other columns alone cannot help. */
static uint32_t sq_extend(sq_state *s, const sq_kernel *kernel, int column) {
    uint32_t conflict = 0;
    int value;
    if (column == kernel->parameters || column >= SQ_PARAMETERS) { /* the second tells compilers the arrays' length */
        if (s->completions < s->most) memcpy(s->kept[s->completions].index, s->index, sizeof s->index);
        ++s->completions;
        return UINT32_MAX;
    }
    for (value = 0; value < kernel->parameter[column].count; ++value) {
        uint32_t reads;
        if (--s->left < 0) { s->fault = 2; return UINT32_MAX; }
        s->index[column] = (uint16_t)value;
        sq_set(s, &kernel->parameter[column], value);
        reads = kernel->check(s, column);
        if (!reads) {
            reads = sq_extend(s, kernel, column + 1);
            if (s->completions > s->most || s->fault) return UINT32_MAX;
            if (!(reads >> column & 1)) return reads;
        }
        conflict |= reads;
    }
    return conflict & ~(UINT32_C(1) << column);
}

/* Set the first `length` values of a configuration, and compute the derived quantities that they resolve. */
static void sq_load(sq_state *s, const sq_kernel *kernel, const uint16_t *index, int length) {
    int column;
    kernel->resolve(s, -1);
    for (column = 0; column < length; ++column) {
        s->index[column] = index[column];
        sq_set(s, &kernel->parameter[column], index[column]);
        kernel->resolve(s, column);
    }
}

/* The number of configurations, at most `most` + 1, that begin with the loaded values and `value`; -1: the kernel. The
 * first `most` are written to `kept`. */
static int sq_count(sq_state *s, const sq_kernel *kernel, int column, int value, int most, sq_proposal *kept) {
    if (column >= 0) {
        s->index[column] = (uint16_t)value;
        sq_set(s, &kernel->parameter[column], value);
    }
    if (kernel->check(s, column)) return 0;
    s->completions = 0;
    s->most = most;
    s->kept = kept;
    sq_extend(s, kernel, column + 1);
    return s->fault ? 0 : s->completions;
}

/* The same for a whole kernel, which may not solve the problem. */
static int sq_count_kernel(sq_state *s, int space, int most, sq_proposal *kept) {
    const sq_kernel *kernel = &sq_kernels[space];
    if (sq_kernel_operations[space] != s->operation || !kernel->solves(s)) return 0;
    kernel->resolve(s, -1);
    return sq_count(s, kernel, -1, 0, most, kept);
}

/* Write all configurations, equally probable; the result is their number, or 0 if they are more than SQ_SMALL. */
static int sq_find_all(sq_state *s, sq_proposal *proposals) {
    int space, row, count = 0;
    for (space = 0; space < SQ_KERNELS; ++space) {
        int own = sq_count_kernel(s, space, SQ_SMALL - count, proposals + count);
        if (s->fault || count + own > SQ_SMALL) return 0;
        for (; own; --own) proposals[count++].space = space;
    }
    for (row = 0; row < count; ++row) proposals[row].cost = log((double)count);
    return count;
}

/* A derived quantity that the last loaded value resolved, as networks read it: log2 in 16 bits, limited. */
SQ_UNUSED static float sq_octave(const sq_state *s, const sq_quantity *quantity) {
    double size = quantity->number || s->big[quantity->slot] ? s->d[quantity->slot] : (double)s->i[quantity->slot];
    double octave = size > 0x1p-14 ? log2(size) : -14.0;
    uint64_t bits;
    if (octave > 48.0) octave = 48.0;
    if (fabs(octave) < 0x1p-14) return (float)(rint(octave * 0x1p24) * 0x1p-24); /* a subnormal number of 16 bits */
    memcpy(&bits, &octave, sizeof bits); /* ten bits after the point remain; halves are rounded to even */
    bits = (bits + ((UINT64_C(1) << 41) - 1 + (bits >> 42 & 1))) >> 42 << 42;
    memcpy(&octave, &bits, sizeof bits);
    return (float)octave;
}
