/* The value in a slot as a number. */
static double sq_value(const sq_state *s, int slot, int number) {
    return number || s->big[slot] ? s->d[slot] : (double)s->i[slot];
}

/* e^(-(octave - centre)^2 / 4) for the centres -14, -12, ..., 42. From a centre to the next one they change by a factor
 * that itself changes by e^2; the nearest centre, where they are largest, comes first. */
static void sq_bumps(double octave, float *out) {
    int nearest = octave < -14 ? 0 : octave > 42 ? 28 : (int)((octave + 15) / 2), side, i;
    double away = octave + 14 - 2 * nearest, first = exp(-(away * away) / 4);
    out[nearest] = (float)first;
    for (side = -1; side <= 1; side += 2) {
        double bump = first, factor = exp(side * away - 1);
        for (i = nearest + side; i >= 0 && i <= 28; i += side, factor *= 0.1353352832366127) {
            bump *= factor;
            out[i] = (float)(bump > 1e-43 ? bump : 0); /* smaller ones are 0 in 32 bits */
        }
    }
}

/* The code of a number: flags, its magnitude, small numbers, and its remainders. */
static void sq_code(double number, int known, float *out) {
    static const unsigned moduli[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 96};
    uint64_t exact;
    double size;
    int whole, i;
    for (i = 0; i < SQ_NUMBER_CODE; ++i) out[i] = 0;
    if (!known) { out[0] = 1; return; }
    size = fabs(number);
    if (size > 0x1p60) size = 0x1p60;
    whole = size == floor(size) && size < 0x1p53;
    out[1] = (float)whole;
    out[2] = (float)(size == 0);
    out[3] = (float)(number < 0);
    out += 4;
    if (size > 0) {
        double octave = log2(size > 0x1p-40 ? size : 0x1p-40);
        out[0] = (float)(octave / 16);
        sq_bumps(octave, out + 1);
    }
    out += 30;
    for (i = 0; i < 16; ++i) out[i] = (float)(size == i + 1);
    out += 16;
    if (!whole) return;
    exact = (uint64_t)size;
    for (i = 0; i < 18; ++i) {
        unsigned remainder = (unsigned)(exact % moduli[i]);
        double turn = 6.283185307179586 * remainder / moduli[i], rounded = size + (remainder ? moduli[i] - remainder : 0);
        out[i] = (float)(remainder == 0);
        out[18 + i] = (float)((double)remainder / moduli[i]);
        out[36 + i] = remainder ? (float)sin(turn) : 0.0f;
        out[54 + i] = remainder ? (float)cos(turn) : 1.0f;
        out[72 + i] = (float)(size / (rounded > 1 ? rounded : 1));
    }
}

/* A number in a slot: twice the slot, plus one if it is a double there. */
SQ_UNUSED static double sq_source(const sq_state *s, int source) {
    return source % 2 ? s->d[source / 2] : (double)s->i[source / 2];
}

/* A whole number of digits. */
SQ_UNUSED static uint32_t sq_number(const char *digits, int count) {
    uint32_t number = 0;
    for (; count > 0; --count) number = number * SQ_BASE + (uint32_t)(*digits++ - 35);
    return number;
}

/* The number whose 32 bits these are. */
SQ_UNUSED static float sq_float(uint32_t bits) { float number; memcpy(&number, &bits, sizeof number); return number; }
