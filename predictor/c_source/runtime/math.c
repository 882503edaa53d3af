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
typedef float sq_vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t sq_whole __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t sq_four __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t sq_two __attribute__((vector_size(64), aligned(1), may_alias));
#define SQ_LANES 16
#define SQ_BITS(x) ((sq_whole)(x))
#define SQ_REAL(x) ((sq_vector)(x))
#define SQ_MASK(x) ((sq_whole)(x))
#define SQ_FLOATS(p) (*(const sq_vector *)(p))
#define SQ_PUT(p) (*(sq_vector *)(p))
#define SQ_INLINE static inline __attribute__((always_inline))
#else
typedef float sq_vector;
typedef int32_t sq_whole;
#define SQ_LANES 1
static int32_t sq_bits(float x) { int32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
static float sq_real(int32_t x) { float real; memcpy(&real, &x, sizeof real); return real; }
#define SQ_BITS(x) sq_bits(x)
#define SQ_REAL(x) sq_real(x)
#define SQ_MASK(x) (-(int32_t)(x))
#define SQ_FLOATS(p) (*(p))
#define SQ_PUT(p) (*(p))
#define SQ_INLINE static inline
#endif

typedef struct sq_rows { /* rows of the product x @ weights: out[row] = x[row] @ weights * scale + bias, or added to out */
    const float *x;
    float *out;
    int rows, x_stride, out_stride, add;
} sq_rows;

/* Read fours of rows, from number `quad` on, as whole numbers. */
SQ_INLINE void sq_decode(long quad, int count, float *out) {
    while (count > 0) {
        int within = (int)(quad % SQ_STRING), run = SQ_STRING - within < count ? SQ_STRING - within : count, q, j;
        const char *digits = sq_text[quad / SQ_STRING] + within * 3 * SQ_FOUR;
        for (q = 0; q < run; ++q, digits += 3 * SQ_FOUR, out += SQ_FOUR) {
#if SQ_LANES > 1
            sq_two a = *(const sq_two *)digits, b = *(const sq_two *)(digits + SQ_FOUR);
            sq_two even = (a & 255) * SQ_BASE + (b & 255) - SQ_MIDDLE, odd = (a >> 8) * SQ_BASE + (b >> 8) - SQ_MIDDLE;
            sq_four c = *(const sq_four *)(digits + 2 * SQ_FOUR);
            sq_whole first[4], last[4];
            first[0] = (sq_whole)((sq_four)even << 16) >> 16;
            first[1] = (sq_whole)((sq_four)odd << 16) >> 16;
            first[2] = (sq_whole)even >> 16;
            first[3] = (sq_whole)odd >> 16;
            last[0] = (sq_whole)(c & 255);
            last[1] = (sq_whole)(c >> 8 & 255);
            last[2] = (sq_whole)(c >> 16 & 255);
            last[3] = (sq_whole)(c >> 24);
            for (j = 0; j < 4; ++j)
                SQ_PUT(out + j * SQ_PANEL) = __builtin_convertvector(first[j], sq_vector) * (float)SQ_BASE
                                             + __builtin_convertvector(last[j], sq_vector);
#else
            for (j = 0; j < SQ_FOUR; ++j) {
                const char *digit = digits + 4 * (j % SQ_PANEL) + j / SQ_PANEL;
                out[j] = (float)((digit[0] * SQ_BASE + digit[SQ_FOUR]) * SQ_BASE + digit[2 * SQ_FOUR] - SQ_OFFSET);
            }
#endif
        }
        quad += run;
        count -= run;
    }
}

#define SQ_ZERO(r) sq_vector a##r = SQ_FLOATS(sq_zeros);
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
                sq_vector weights = SQ_FLOATS(panel + (long)k * stride + lane); \
                SQ_##count(SQ_STEP) \
            } \
            SQ_##count(SQ_STORE) \
        } \
    } break;

static const float sq_zeros[SQ_PANEL] = {0};

/* One panel of 16 columns: out = x @ panel * scale + bias; at most `most` rows are computed together. */
SQ_INLINE void sq_panel_body(const sq_rows *rows, int depth, const float *panel, int stride, const float *scale,
                             const float *bias, int most) {
    int row = 0, lane, k;
    while (row < rows->rows) {
        int left = rows->rows - row, blocks = (left + most - 1) / most, count = (left + blocks - 1) / blocks;
        switch (count) {
        SQ_BLOCK(1)
        SQ_BLOCK(2)
        SQ_BLOCK(3)
        SQ_BLOCK(4)
        SQ_BLOCK(5)
        SQ_BLOCK(6)
        SQ_BLOCK(7)
        default: SQ_BLOCK(8)
        }
        row += count;
    }
}

SQ_INLINE void sq_linear_body(const sq_linear *linear, const sq_rows *rows, int most) {
    float panel[SQ_QUADS(SQ_DEEPEST) * SQ_FOUR];
    int column;
    for (column = 0; column < linear->out; column += SQ_PANEL) {
        sq_rows part = *rows;
        part.out += column;
        sq_decode(linear->quad + (long)(column / SQ_PANEL) * SQ_QUADS(linear->in), SQ_QUADS(linear->in), panel);
        sq_panel_body(&part, linear->in, panel, SQ_PANEL, linear->scale + column,
                      linear->bias ? linear->bias + column : 0, most);
    }
}

/* e to the power of x: 2^n e^r with |r| <= ln(2) / 2, and Taylor's polynomial of degree 7, whose error is 5e-9. */
SQ_INLINE void sq_exp(sq_vector *x) {
    sq_whole high, low;
    sq_vector n, r, y, clipped = *x;
    high = SQ_MASK(clipped < 80.0f);
    clipped = SQ_REAL((SQ_BITS(clipped) & high) | (SQ_BITS(clipped * 0.0f + 80.0f) & ~high));
    low = SQ_MASK(clipped > -87.0f);
    clipped = SQ_REAL((SQ_BITS(clipped) & low) | (SQ_BITS(clipped * 0.0f - 87.0f) & ~low));
    n = clipped * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum is rounded to a whole number */
    high = SQ_BITS(n) - 0x4B400000;
    n -= 12582912.0f;
    r = clipped - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    y = r * (1.0f / 5040) + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r * r + r + 1.0f;
    *x = y * SQ_REAL((high + 127) << 23);
}

/* GELU: max(x, 0) - |x| P(normal < -|x|), whose logarithm is a polynomial of |x|. The length is a multiple of 16. */
SQ_INLINE void sq_gelu_body(float *x, long count) {
    long i;
    for (i = 0; i < count; i += SQ_LANES) {
        sq_vector value = SQ_FLOATS(x + i), size = SQ_REAL(SQ_BITS(value) & 0x7FFFFFFF), tail;
        tail = size * SQ_TAIL_0 + SQ_TAIL_1;
        tail = tail * size + SQ_TAIL_2;
        tail = tail * size + SQ_TAIL_3;
        tail = tail * size + SQ_TAIL_4;
        tail = tail * size + SQ_TAIL_5;
        sq_exp(&tail);
        SQ_PUT(x + i) = (value + size) * 0.5f - tail * size;
    }
}

/* Softmax of the first `count` scores; the row has room for a multiple of 16. */
SQ_INLINE void sq_soften_body(float *scores, int count) {
    float most = scores[0], sum[SQ_PANEL] = {0}, total = 0;
    int padded = (count + SQ_PANEL - 1) / SQ_PANEL * SQ_PANEL, i;
    for (i = 1; i < count; ++i) if (scores[i] > most) most = scores[i];
    for (i = count; i < padded; ++i) scores[i] = most - 200.0f;
    for (i = 0; i < padded; i += SQ_LANES) {
        sq_vector part = SQ_FLOATS(scores + i) - most;
        sq_exp(&part);
        SQ_PUT(scores + i) = part;
        SQ_PUT(sum + i % SQ_PANEL) = SQ_FLOATS(sum + i % SQ_PANEL) + part;
    }
    for (i = 0; i < SQ_PANEL; ++i) total += sum[i];
    for (i = 0; i < padded; i += SQ_LANES) SQ_PUT(scores + i) = SQ_FLOATS(scores + i) / total;
}

/* The same functions for different processors; the results are the same. */
#define SQ_VARIANT(name, target, most) \
    target static void sq_linear_##name(const sq_linear *linear, const sq_rows *rows) { \
        sq_linear_body(linear, rows, most); } \
    target static void sq_panel_##name(const sq_rows *rows, int depth, const float *panel, int stride) { \
        sq_panel_body(rows, depth, panel, stride, 0, 0, most); } \
    target static void sq_gelu_##name(float *x, long count) { sq_gelu_body(x, count); } \
    target static void sq_soften_##name(float *scores, int count) { sq_soften_body(scores, count); } \
    target static void sq_table_##name(long quad, int count, float *out) { sq_decode(quad, count, out); }
#define SQ_VARIANT_TABLE(name) \
    {sq_linear_##name, sq_panel_##name, sq_gelu_##name, sq_soften_##name, sq_table_##name}

SQ_VARIANT(any, , 2)
#if SQ_LANES > 1 && defined(__x86_64__)
SQ_VARIANT(avx2, __attribute__((target("avx2"))), 4)
SQ_VARIANT(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), 8)
#endif

static const sq_math *sq_best_math(void) {
    static const sq_math any = SQ_VARIANT_TABLE(any);
#if SQ_LANES > 1 && defined(__x86_64__)
    static const sq_math avx2 = SQ_VARIANT_TABLE(avx2), avx512 = SQ_VARIANT_TABLE(avx512);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl")) return &avx512;
    if (__builtin_cpu_supports("avx2")) return &avx2;
#endif
    return &any;
}
