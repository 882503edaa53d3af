/* Arithmetic of whole numbers and numbers as Python has it: // and % round down.
 * Functions with `over` set it where a result may exceed 64 bits; then the same expression is computed in doubles.
 * Functions with `undefined` set it where Python has no value: a divisor is 0, or a name has none for that reason. The
 * result is then any number, and no condition holds. */

#define SQ_LARGEST 4.0e18 /* below 2^62, so that the sum of two such numbers has 64 bits */

static int64_t sq_bounded(double size, int64_t exact, int *over) {
    if (size > -SQ_LARGEST && size < SQ_LARGEST) return exact;
    *over = 1;
    return 0;
}
SQ_UNUSED static int64_t sq_known(int64_t value, int unknown, int *over) {
    *over |= unknown;
    return value;
}
SQ_UNUSED static int64_t sq_divisor_i(int64_t value, int *undefined) {
    *undefined |= value == 0;
    return value;
}
SQ_UNUSED static double sq_divisor_d(double value, int *undefined) {
    *undefined |= value == 0;
    return value;
}
SQ_UNUSED static int64_t sq_defined_i(int64_t value, int known, int *undefined) {
    *undefined |= !known;
    return value;
}
SQ_UNUSED static double sq_defined_d(double value, int known, int *undefined) {
    *undefined |= !known;
    return value;
}
SQ_UNUSED static int64_t sq_add(int64_t a, int64_t b, int *over) {
    return sq_bounded((double)a + (double)b, (int64_t)((uint64_t)a + (uint64_t)b), over);
}
SQ_UNUSED static int64_t sq_sub(int64_t a, int64_t b, int *over) {
    return sq_bounded((double)a - (double)b, (int64_t)((uint64_t)a - (uint64_t)b), over);
}
SQ_UNUSED static int64_t sq_mul(int64_t a, int64_t b, int *over) {
    return sq_bounded((double)a * (double)b, (int64_t)((uint64_t)a * (uint64_t)b), over);
}
SQ_UNUSED static int64_t sq_floor_i(int64_t a, int64_t b) {
    int64_t quotient;
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    quotient = a / b;
    return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}
SQ_UNUSED static double sq_rest_d(double a, double b) {
    double rest;
    if (b == 0) return 0;
    rest = fmod(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
SQ_UNUSED static double sq_floor_d(double a, double b) {
    double rest, quotient, whole;
    if (b == 0) return 0;
    rest = fmod(a, b);
    quotient = (a - rest) / b - (rest != 0 && ((rest < 0) != (b < 0))); /* a whole number but for rounding */
    whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
SQ_UNUSED static int64_t sq_rest_i(int64_t a, int64_t b) {
    int64_t rest;
    if (b == 0 || b == -1) return 0;
    rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
SQ_UNUSED static double sq_quotient(double a, double b) { return b == 0 ? 0 : a / b; }
SQ_UNUSED static int64_t sq_power_i(int64_t base, int exponent, int *over) {
    int64_t result = 1;
    for (; exponent > 0; --exponent) result = sq_mul(result, base, over);
    return result;
}
SQ_UNUSED static double sq_power_d(double base, double exponent) {
    return base == 0 && exponent < 0 ? 0 : pow(base, exponent);
}
SQ_UNUSED static double sq_power_z(double base, double exponent, int *undefined) {
    *undefined |= base == 0 && exponent < 0;
    return sq_power_d(base, exponent);
}
SQ_UNUSED static int64_t sq_left_i(int64_t a, int64_t b, int *over) {
    if (b < 0 || b > 62) { *over = 1; return 0; }
    return sq_mul(a, (int64_t)1 << b, over);
}
SQ_UNUSED static double sq_left_d(double a, double b) { return ldexp(a, b < 0 || b > 62 ? 0 : (int)b); }
SQ_UNUSED static int64_t sq_right_i(int64_t a, int64_t b, int *fault) {
    if (b < 0 || b > 62) { *fault = 1; return 0; }
    return sq_floor_i(a, (int64_t)1 << b);
}
SQ_UNUSED static double sq_right_d(double a, double b) { return floor(ldexp(a, b < 0 || b > 62 ? 0 : -(int)b)); }
SQ_UNUSED static int64_t sq_abs_i(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
SQ_UNUSED static double sq_abs_d(double a) { return fabs(a); }
SQ_UNUSED static int64_t sq_min_i(int64_t a, int64_t b) { return b < a ? b : a; }
SQ_UNUSED static int64_t sq_max_i(int64_t a, int64_t b) { return b > a ? b : a; }
SQ_UNUSED static double sq_min_d(double a, double b) { return b < a ? b : a; }
SQ_UNUSED static double sq_max_d(double a, double b) { return b > a ? b : a; }
SQ_UNUSED static int64_t sq_gcd_i(int64_t a, int64_t b) {
    a = sq_abs_i(a);
    b = sq_abs_i(b);
    while (b) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}
SQ_UNUSED static double sq_gcd_d(double a, double b) {
    a = fabs(a);
    b = fabs(b);
    while (b > 0) { double rest = fmod(a, b); a = b; b = rest; }
    return a;
}
SQ_UNUSED static int64_t sq_lcm_c(int64_t a, int64_t b, int *over) {
    int64_t divisor = sq_gcd_i(a, b);
    return divisor ? sq_abs_i(sq_mul(a / divisor, b, over)) : 0;
}
SQ_UNUSED static double sq_lcm_d(double a, double b) {
    double divisor = sq_gcd_d(a, b);
    return divisor > 0 ? fabs(a / divisor * b) : 0;
}
SQ_UNUSED static int64_t sq_ceil_div_i(int64_t a, int64_t b) { return sq_floor_i(a + b - 1, b); }
SQ_UNUSED static int64_t sq_round_up_i(int64_t a, int64_t b) { return sq_floor_i(a + b - 1, b) * b; }
SQ_UNUSED static int64_t sq_ceil_div_c(int64_t a, int64_t b, int *over) {
    return sq_floor_i(sq_sub(sq_add(a, b, over), 1, over), b);
}
SQ_UNUSED static int64_t sq_round_up_c(int64_t a, int64_t b, int *over) {
    return sq_mul(sq_ceil_div_c(a, b, over), b, over);
}
SQ_UNUSED static double sq_ceil_div_d(double a, double b) { return sq_floor_d(a + b - 1, b); }
SQ_UNUSED static double sq_round_up_d(double a, double b) { return sq_floor_d(a + b - 1, b) * b; }
SQ_UNUSED static int64_t sq_and_i(int64_t a, int64_t b, int64_t empty) { return a == empty ? a : b; }
SQ_UNUSED static int64_t sq_or_i(int64_t a, int64_t b, int64_t empty) { return a == empty ? b : a; }
SQ_UNUSED static double sq_and_d(double a, double b, double empty) { return a == empty ? a : b; }
SQ_UNUSED static double sq_or_d(double a, double b, double empty) { return a == empty ? b : a; }
SQ_UNUSED static int64_t sq_missing_i(int *fault) { *fault = 1; return 0; }
SQ_UNUSED static double sq_missing_d(int *fault) { *fault = 1; return 0; }
