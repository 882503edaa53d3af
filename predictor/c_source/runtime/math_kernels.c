/* The functions of one variant: vectors have SQ_BYTES bytes, and SQ_ROWS_TOGETHER rows are computed together. */
#if SQ_VECTORS
typedef float SQ_NAME(vector) __attribute__((vector_size(SQ_BYTES), aligned(4), may_alias));
typedef int32_t SQ_NAME(whole) __attribute__((vector_size(SQ_BYTES), aligned(4), may_alias));
typedef uint32_t SQ_NAME(four) __attribute__((vector_size(SQ_BYTES), aligned(1), may_alias));
typedef uint16_t SQ_NAME(two) __attribute__((vector_size(SQ_BYTES), aligned(1), may_alias));
#define SQ_LANES (SQ_BYTES / 4)
#define SQ_BITS(x) ((SQ_NAME(whole))(x))
#define SQ_REAL(x) ((SQ_NAME(vector))(x))
#define SQ_MASK(x) ((SQ_NAME(whole))(x))
#define SQ_FLOATS(p) (*(const SQ_NAME(vector) *)(p))
#define SQ_PUT(p) (*(SQ_NAME(vector) *)(p))
#else
typedef float SQ_NAME(vector);
typedef int32_t SQ_NAME(whole);
#define SQ_LANES 1
#define SQ_BITS(x) sq_bits(x)
#define SQ_REAL(x) sq_real(x)
#define SQ_MASK(x) (-(int32_t)(x))
#define SQ_FLOATS(p) (*(p))
#define SQ_PUT(p) (*(p))
#endif

/* Read fours of rows, from number `quad` on, as whole numbers. */
SQ_INLINE void SQ_NAME(decode)(long quad, int count, float *out) {
    while (count > 0) {
        int within = (int)(quad % SQ_STRING), run = SQ_STRING - within < count ? SQ_STRING - within : count, q, j;
        const char *digits = sq_text[quad / SQ_STRING] + within * 3 * SQ_FOUR;
        for (q = 0; q < run; ++q, digits += 3 * SQ_FOUR, out += SQ_FOUR) {
#if SQ_VECTORS
          for (j = 0; j < SQ_FOUR; j += SQ_BYTES) {
            SQ_NAME(two) a = *(const SQ_NAME(two) *)(digits + j), b = *(const SQ_NAME(two) *)(digits + SQ_FOUR + j);
            SQ_NAME(two) even = (a & 255) * SQ_BASE + (b & 255) - SQ_MIDDLE, odd = (a >> 8) * SQ_BASE + (b >> 8) - SQ_MIDDLE;
            SQ_NAME(four) c = *(const SQ_NAME(four) *)(digits + 2 * SQ_FOUR + j);
            SQ_WEIGHTS(0, (SQ_NAME(whole))((SQ_NAME(four))even << 16) >> 16, c & 255)
            SQ_WEIGHTS(1, (SQ_NAME(whole))((SQ_NAME(four))odd << 16) >> 16, c >> 8 & 255)
            SQ_WEIGHTS(2, (SQ_NAME(whole))even >> 16, c >> 16 & 255)
            SQ_WEIGHTS(3, (SQ_NAME(whole))odd >> 16, c >> 24)
          }
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

/* One panel of 16 columns: out = x @ panel * scale + bias; at most `most` rows are computed together. */
SQ_INLINE void SQ_NAME(panel_body)(const sq_rows *rows, int depth, const float *panel, int stride, const float *scale,
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

SQ_INLINE void SQ_NAME(linear_body)(const sq_linear *linear, const sq_rows *rows, int most) {
    float panel[SQ_QUADS(SQ_DEEPEST) * SQ_FOUR];
    int column;
    for (column = 0; column < linear->out; column += SQ_PANEL) {
        sq_rows part = *rows;
        long quad = (long)(column / SQ_PANEL) * SQ_QUADS(linear->in);
        const float *weights = rows->kept ? rows->kept + quad * SQ_FOUR : panel;
        part.out += column;
        if (!rows->kept) SQ_NAME(decode)(linear->quad + quad, SQ_QUADS(linear->in), panel);
        SQ_NAME(panel_body)(&part, linear->in, weights, SQ_PANEL, linear->scale + column,
                      linear->bias ? linear->bias + column : 0, most);
    }
}

/* e to the power of x: 2^n e^r with |r| <= ln(2) / 2, and Taylor's polynomial of degree 7, whose error is 5e-9. */
SQ_INLINE void SQ_NAME(exp)(SQ_NAME(vector) *x) {
    SQ_NAME(whole) high, low;
    SQ_NAME(vector) n, r, y, clipped = *x;
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
SQ_INLINE void SQ_NAME(gelu_body)(float *x, long count) {
    long i;
    for (i = 0; i < count; i += SQ_LANES) {
        SQ_NAME(vector) value = SQ_FLOATS(x + i), size = SQ_REAL(SQ_BITS(value) & 0x7FFFFFFF), tail;
        tail = size * SQ_TAIL_0 + SQ_TAIL_1;
        tail = tail * size + SQ_TAIL_2;
        tail = tail * size + SQ_TAIL_3;
        tail = tail * size + SQ_TAIL_4;
        tail = tail * size + SQ_TAIL_5;
        SQ_NAME(exp)(&tail);
        SQ_PUT(x + i) = (value + size) * 0.5f - tail * size;
    }
}

/* Softmax of the first `count` scores; the row has room for a multiple of 16. */
SQ_INLINE void SQ_NAME(soften_body)(float *scores, int count) {
    float most = scores[0], sum[SQ_PANEL] = {0}, total = 0;
    int padded = (count + SQ_PANEL - 1) / SQ_PANEL * SQ_PANEL, i;
    for (i = 1; i < count; ++i) if (scores[i] > most) most = scores[i];
    for (i = count; i < padded; ++i) scores[i] = most - 200.0f;
    for (i = 0; i < padded; i += SQ_LANES) {
        SQ_NAME(vector) part = SQ_FLOATS(scores + i) - most;
        SQ_NAME(exp)(&part);
        SQ_PUT(scores + i) = part;
        SQ_PUT(sum + i % SQ_PANEL) = SQ_FLOATS(sum + i % SQ_PANEL) + part;
    }
    for (i = 0; i < SQ_PANEL; ++i) total += sum[i];
    for (i = 0; i < padded; i += SQ_LANES) SQ_PUT(scores + i) = SQ_FLOATS(scores + i) / total;
}

SQ_TARGET static void SQ_NAME(linear)(const sq_linear *linear, const sq_rows *rows) {
    SQ_NAME(linear_body)(linear, rows, SQ_ROWS_TOGETHER);
}
SQ_TARGET static void SQ_NAME(panel)(const sq_rows *rows, int depth, const float *panel, int stride) {
    SQ_NAME(panel_body)(rows, depth, panel, stride, 0, 0, SQ_ROWS_TOGETHER);
}
SQ_TARGET static void SQ_NAME(gelu)(float *x, long count) { SQ_NAME(gelu_body)(x, count); }
SQ_TARGET static void SQ_NAME(soften)(float *scores, int count) { SQ_NAME(soften_body)(scores, count); }
SQ_TARGET static void SQ_NAME(table)(long quad, int count, float *out) { SQ_NAME(decode)(quad, count, out); }
static const sq_math SQ_NAME(math) = {SQ_NAME(linear), SQ_NAME(panel), SQ_NAME(gelu), SQ_NAME(soften),
                                      SQ_NAME(table)};
#undef SQ_LANES
#undef SQ_BITS
#undef SQ_REAL
#undef SQ_MASK
#undef SQ_FLOATS
#undef SQ_PUT
