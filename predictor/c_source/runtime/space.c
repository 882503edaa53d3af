/* Search spaces: the values that may follow others, found by depth-first search at run time. */

/* Give a parameter one of its values. */
static void sq_set(sq_state *s, const sq_parameter *parameter, int value) {
    if (parameter->fractions) s->d[parameter->slot] = parameter->fractions[value];
    else s->i[parameter->slot] = parameter->values[value];
}

/* Look for configurations that begin with the values of the columns before `column`; stop at the second one. The result
 * is a set of columns: where there is none, changing the values of other columns alone cannot help. */
static uint32_t sq_extend(sq_state *s, const sq_kernel *kernel, int column) {
    uint32_t conflict = 0;
    int value;
    if (column == kernel->parameters || column >= SQ_PARAMETERS) { /* the second tells compilers the arrays' length */
        if (!s->completions++) memcpy(s->first, s->index, sizeof s->first);
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
            if (s->completions > 1 || s->fault) return UINT32_MAX;
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

/* The number of configurations, 0, 1 or 2 for more, that begin with the loaded values and `value`; -1: the kernel. */
static int sq_count(sq_state *s, const sq_kernel *kernel, int column, int value) {
    if (column >= 0) {
        s->index[column] = (uint16_t)value;
        sq_set(s, &kernel->parameter[column], value);
    }
    if (kernel->check(s, column)) return 0;
    s->completions = 0;
    sq_extend(s, kernel, column + 1);
    return s->fault ? 0 : s->completions;
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
