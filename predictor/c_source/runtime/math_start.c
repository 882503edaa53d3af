/* Matrix products, GELU and softmax in vectors. Processors with fused multiply-add round once less, so results of the
 * variants differ in the last bits.
 *
 * A weight is three digits a b c of base SQ_BASE, each one printable character. Four rows of 16 weights stand together:
 * a0 b0 a1 b1 of each column, a2 b2 a3 b3 of each column, c0 c1 c2 c3 of each column. A matrix of `in` rows and `out`
 * columns has a scale for each column and consists of panels of 16 columns; a table that is looked up by row has a scale
 * for each row, whose numbers are written as rows of 16. */

#define SQ_PANEL 16
#define SQ_FOUR (4 * SQ_PANEL)
#define SQ_QUADS(rows) (((rows) + 3) / 4)
#define SQ_MIDDLE (SQ_OFFSET / SQ_BASE) /* the offset of the first two digits; that of the last one is 0 */
#define SQ_SPAN (2 * SQ_PANEL)          /* columns whose weights are decoded together */

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
#include <immintrin.h>
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

typedef struct sq_panels { /* weights in panels of 16 columns, whose rows are `stride` numbers apart */
    const float *weights;
    int depth, stride, columns;
    long next; /* distance of two panels */
    const float *scale, *bias;
    uintptr_t ahead, end; /* digits that are read next: they are fetched from memory meanwhile */
} sq_panels;

#define SQ_AHEAD 32 /* lines of 64 bytes in the time of a block of rows */
#if defined(__GNUC__)
#define SQ_FETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
#else
#define SQ_FETCH(address) (void)0
#endif

/* The digits of four rows. */
static const char *sq_digits(long quad) { return sq_text[quad / SQ_STRING] + quad % SQ_STRING * 3 * SQ_FOUR; }

/* The product of one to eight rows and two vectors of columns. */
#define SQ_ZERO(r) SQ_NAME(vector) a##r = zero, b##r = zero;
#define SQ_STEP(r) { SQ_NAME(vector) x = SQ_ALL(x##r[k]); a##r = SQ_ADD(a##r, x, left); b##r = SQ_ADD(b##r, x, right); }
#define SQ_ROW(r) const float *x##r = rows->x + (long)(row + r) * rows->x_stride;
#define SQ_STORE(r) { \
    float *out = rows->out + (long)(row + r) * rows->out_stride + column; \
    SQ_NAME(finish)(a##r, panels, rows->add, column, out); \
    if (both) SQ_NAME(finish)(b##r, panels, rows->add, column + SQ_LANES, out + SQ_LANES); }
#define SQ_1(f) f(0)
#define SQ_2(f) SQ_1(f) f(1)
#define SQ_3(f) SQ_2(f) f(2)
#define SQ_4(f) SQ_3(f) f(3)
#define SQ_5(f) SQ_4(f) f(4)
#define SQ_6(f) SQ_5(f) f(5)
#define SQ_7(f) SQ_6(f) f(6)
#define SQ_8(f) SQ_7(f) f(7)
#define SQ_BLOCK(count) case count: if (count <= SQ_ROWS_TOGETHER) { \
        SQ_##count(SQ_ROW) \
        SQ_##count(SQ_ZERO) \
        for (k = 0; k < panels->depth; ++k) { \
            SQ_NAME(vector) left = SQ_FLOATS(first + (long)k * panels->stride); \
            SQ_NAME(vector) right = SQ_FLOATS(second + (long)k * panels->stride); \
            SQ_##count(SQ_STEP) \
        } \
        SQ_##count(SQ_STORE) \
    } break;
