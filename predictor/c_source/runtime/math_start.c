/* Matrix products, GELU and softmax in vectors of 16 numbers. Sums are in the same order on every processor.
 *
 * A weight is three digits a b c of base SQ_BASE, each one printable character. Four rows of 16 weights stand together:
 * 64 first digits, 64 second digits, 64 third digits, in which digit 4 * column + row is that of a row's column. A
 * matrix of `in` rows and `out` columns has a scale for each column and consists of panels of 16 columns; a table that is
 * looked up by row has a scale for each row, whose numbers are written as rows of 16. */

#define SQ_PANEL 16
#define SQ_FOUR (4 * SQ_PANEL)
#define SQ_QUADS(rows) (((rows) + 3) / 4)
#define SQ_MIDDLE (SQ_OFFSET / SQ_BASE) /* the offset of the first two digits; that of the last one is 0 */

#if defined(__GNUC__) && (__GNUC__ >= 9 || defined(__clang__)) && !defined(SEQTUNE_PORTABLE) \
    && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SQ_VECTORS 1
#define SQ_INLINE static inline __attribute__((always_inline))
#else
#define SQ_VECTORS 0
#define SQ_INLINE static inline
SQ_UNUSED static int32_t sq_bits(float x) { int32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
SQ_UNUSED static float sq_real(int32_t x) { float real; memcpy(&real, &x, sizeof real); return real; }
#endif
#if SQ_VECTORS && defined(__x86_64__)
#define SQ_X86 1
#else
#define SQ_X86 0
#endif
#define SQ_PASTE(a, b) sq_##a##_##b
#define SQ_PASTED(a, b) SQ_PASTE(a, b)
#define SQ_NAME(name) SQ_PASTED(name, SQ_VARIANT)

typedef struct sq_rows { /* rows of the product x @ weights: out[row] = x[row] @ weights * scale + bias, or added to out */
    const float *x;
    float *out;
    const float *kept; /* decoded weights of the linear map, or 0 */
    int rows, x_stride, out_stride, add;
} sq_rows;

static const float sq_zeros[SQ_PANEL] = {0};

#define SQ_WEIGHTS(row, first, last) /* a row, given its first two digits as one number, and its last digit */ \
    SQ_PUT(out + row * SQ_PANEL + j / 4) = \
        __builtin_convertvector(first, SQ_NAME(vector)) * (float)SQ_BASE \
        + __builtin_convertvector((SQ_NAME(whole))(last), SQ_NAME(vector));
#define SQ_ZERO(r) SQ_NAME(vector) a##r = SQ_FLOATS(sq_zeros);
#define SQ_STEP(r) a##r += x##r[k] * weights;
#define SQ_ROW(r) const float *x##r = rows->x + (long)(row + r) * rows->x_stride;
#define SQ_STORE(r) { \
    float *out = rows->out + (long)(row + r) * rows->out_stride + lane; \
    if (scale) a##r *= SQ_FLOATS(scale + lane); \
    if (bias) a##r += SQ_FLOATS(bias + lane); \
    if (rows->add) a##r += SQ_FLOATS(out); \
    SQ_PUT(out) = a##r; }
#define SQ_1(f) f(0)
#define SQ_2(f) SQ_1(f) f(1)
#define SQ_3(f) SQ_2(f) f(2)
#define SQ_4(f) SQ_3(f) f(3)
#define SQ_5(f) SQ_4(f) f(4)
#define SQ_6(f) SQ_5(f) f(5)
#define SQ_7(f) SQ_6(f) f(6)
#define SQ_8(f) SQ_7(f) f(7)
#define SQ_BLOCK(count) case count: if (count <= most) { \
        SQ_##count(SQ_ROW) \
        for (lane = 0; lane < SQ_PANEL; lane += SQ_LANES) { \
            SQ_##count(SQ_ZERO) \
            for (k = 0; k < depth; ++k) { \
                SQ_NAME(vector) weights = SQ_FLOATS(panel + (long)k * stride + lane); \
                SQ_##count(SQ_STEP) \
            } \
            SQ_##count(SQ_STORE) \
        } \
    } break;

