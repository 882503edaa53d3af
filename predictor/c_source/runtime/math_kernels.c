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

/* SQ_ALL: a vector filled with one number. SQ_ADD: sum + a * b. SQ_LARGER: the larger one of each two numbers.
 * SQ_PAIRS: each two digits as one number of 16 bits. SQ_EVEN, SQ_ODD: weights, given those numbers and last digits. */
#if SQ_BYTES == 64
#define SQ_ALL(x) _mm512_set1_ps(x)
#define SQ_ADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define SQ_LARGER(a, b) _mm512_max_ps(a, b)
#define SQ_PAIRS(p) _mm512_sub_epi16(_mm512_maddubs_epi16(_mm512_loadu_si512(p), _mm512_set1_epi16(SQ_BASE | 256)), \
                                     _mm512_set1_epi16(SQ_MIDDLE))
#define SQ_EVEN(pairs, c) _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi32(SQ_BASE)), \
                                                              (__m512i)(c)))
#define SQ_ODD(pairs, c) _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi32(SQ_BASE << 16)), \
                                                             (__m512i)(c)))
typedef __m512i SQ_NAME(pair);
#elif SQ_BYTES == 32
#define SQ_ALL(x) _mm256_set1_ps(x)
#define SQ_ADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define SQ_LARGER(a, b) _mm256_max_ps(a, b)
#define SQ_PAIRS(p) _mm256_sub_epi16(_mm256_maddubs_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)), \
                                                          _mm256_set1_epi16(SQ_BASE | 256)), _mm256_set1_epi16(SQ_MIDDLE))
#define SQ_EVEN(pairs, c) _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi32(SQ_BASE)), \
                                                              (__m256i)(c)))
#define SQ_ODD(pairs, c) _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi32(SQ_BASE << 16)), \
                                                             (__m256i)(c)))
typedef __m256i SQ_NAME(pair);
#else
#define SQ_ALL(x) ((x) - (SQ_NAME(vector)){0})
#define SQ_ADD(sum, a, b) ((sum) + (a) * (b))
#define SQ_LARGER(a, b) SQ_NAME(larger)(a, b)
SQ_TARGET SQ_INLINE SQ_NAME(vector) SQ_NAME(larger)(SQ_NAME(vector) a, SQ_NAME(vector) b) {
    SQ_NAME(whole) above = SQ_MASK(a > b);
    return SQ_REAL((SQ_BITS(a) & above) | (SQ_BITS(b) & ~above));
}
#if SQ_VECTORS
#define SQ_PAIRS(p) ((*(const SQ_NAME(two) *)(p) & 255) * SQ_BASE + (*(const SQ_NAME(two) *)(p) >> 8) - SQ_MIDDLE)
#define SQ_DIGITS(x) __builtin_convertvector((SQ_NAME(whole))(x), SQ_NAME(vector))
#define SQ_EVEN(pairs, c) (SQ_DIGITS((SQ_NAME(whole))((SQ_NAME(four))(pairs) << 16) >> 16) * (float)SQ_BASE + SQ_DIGITS(c))
#define SQ_ODD(pairs, c) (SQ_DIGITS((SQ_NAME(whole))(pairs) >> 16) * (float)SQ_BASE + SQ_DIGITS(c))
typedef SQ_NAME(two) SQ_NAME(pair);
#endif
#endif

/* Read fours of rows, from number `quad` on, as whole numbers. */
SQ_TARGET static void SQ_NAME(table)(long quad, int count, float *out) {
    while (count > 0) {
        int within = (int)(quad % SQ_STRING), run = SQ_STRING - within < count ? SQ_STRING - within : count, q, j;
        const char *digits = sq_digits(quad);
        for (q = 0; q < run; ++q, digits += 3 * SQ_FOUR, out += SQ_FOUR) {
#if SQ_VECTORS
            for (j = 0; j < SQ_FOUR; j += SQ_BYTES) {
                SQ_NAME(pair) start = SQ_PAIRS(digits + j), end = SQ_PAIRS(digits + SQ_FOUR + j);
                SQ_NAME(four) last = *(const SQ_NAME(four) *)(digits + 2 * SQ_FOUR + j);
                float *row = out + j / 4;
                SQ_PUT(row) = SQ_EVEN(start, last & 255);
                SQ_PUT(row + SQ_PANEL) = SQ_ODD(start, last >> 8 & 255);
                SQ_PUT(row + 2 * SQ_PANEL) = SQ_EVEN(end, last >> 16 & 255);
                SQ_PUT(row + 3 * SQ_PANEL) = SQ_ODD(end, last >> 24);
            }
#else
            for (j = 0; j < SQ_FOUR; ++j) {
                const char *column = digits + 4 * (j % SQ_PANEL), *two = column + j / 32 * SQ_FOUR + j / SQ_PANEL % 2 * 2;
                out[j] = (float)((two[0] * SQ_BASE + two[1]) * SQ_BASE + column[2 * SQ_FOUR + j / SQ_PANEL] - SQ_OFFSET);
            }
#endif
        }
        quad += run;
        count -= run;
    }
}

SQ_TARGET SQ_INLINE void SQ_NAME(finish)(SQ_NAME(vector) sum, const sq_panels *panels, int add, int column, float *out) {
    if (panels->scale) sum *= SQ_FLOATS(panels->scale + column);
    if (panels->bias) sum += SQ_FLOATS(panels->bias + column);
    if (add) sum += SQ_FLOATS(out);
    SQ_PUT(out) = sum;
}

/* Multiply rows by panels, two vectors of columns at a time. */
SQ_TARGET static void SQ_NAME(product)(const sq_rows *rows, const sq_panels *panels) {
    const SQ_NAME(vector) zero = {0};
    uintptr_t ahead = panels->ahead;
    int column, k;
    for (column = 0; column < panels->columns; column += 2 * SQ_LANES) {
        const float *first = panels->weights + column / SQ_PANEL * panels->next + column % SQ_PANEL;
        int both = column + SQ_LANES < panels->columns, other = column + both * SQ_LANES, row = 0;
        const float *second = panels->weights + other / SQ_PANEL * panels->next + other % SQ_PANEL;
        while (row < rows->rows) {
            int left = rows->rows - row, blocks = (left + SQ_ROWS_TOGETHER - 1) / SQ_ROWS_TOGETHER;
            int count = (left + blocks - 1) / blocks;
            for (k = 0; k < SQ_AHEAD && ahead < panels->end; ++k, ahead += 64) SQ_FETCH(ahead);
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
}

SQ_TARGET static void SQ_NAME(linear)(const sq_linear *linear, const sq_rows *rows) {
    float decoded[SQ_QUADS(SQ_DEEPEST) * SQ_FOUR * (SQ_SPAN / SQ_PANEL)];
    int quads = SQ_QUADS(linear->in), column, whole = linear->out;
    sq_panels panels;
    sq_rows part = *rows;
    panels.weights = rows->kept;
    panels.depth = linear->in;
    panels.stride = SQ_PANEL;
    panels.next = (long)quads * SQ_FOUR;
    panels.ahead = panels.end = 0;
    for (column = 0; column < linear->out; column += panels.columns) {
        panels.columns = rows->kept || whole - column < SQ_SPAN ? whole - column : SQ_SPAN;
        panels.scale = linear->scale + column;
        panels.bias = linear->bias ? linear->bias + column : 0;
        part.out = rows->out + column;
        if (!rows->kept) {
            long quad = linear->quad + (long)(column / SQ_PANEL) * quads;
            int count = panels.columns / SQ_PANEL * quads;
            SQ_NAME(table)(quad, count, decoded);
            panels.weights = decoded;
            panels.ahead = (uintptr_t)sq_digits(quad) + (uintptr_t)count * 3 * SQ_FOUR;
            panels.end = panels.ahead + (uintptr_t)count * 3 * SQ_FOUR;
        }
        SQ_NAME(product)(&part, &panels);
    }
}

/* 2 to the power of x, at least 2^-126, for x up to 126: 2^n 2^r with |r| <= 1/2, and a polynomial of r whose relative
 * error is below 2e-8. */
SQ_TARGET SQ_INLINE SQ_NAME(vector) SQ_NAME(exp2)(SQ_NAME(vector) x) {
    const SQ_NAME(vector) clipped = SQ_LARGER(x, SQ_ALL(-126.0f));
    SQ_NAME(vector) n = clipped + 12582912.0f, r, y; /* 1.5 * 2^23: the sum is rounded to a whole number */
    r = clipped - (n - 12582912.0f);
    y = SQ_ADD(SQ_ALL(0.0013399931f), r, SQ_ALL(0.00015345812f));
    y = SQ_ADD(SQ_ALL(0.009618489f), y, r);
    y = SQ_ADD(SQ_ALL(0.055503286f), y, r);
    y = SQ_ADD(SQ_ALL(0.24022646f), y, r);
    y = SQ_ADD(SQ_ALL(0.6931472f), y, r);
    y = SQ_ADD(SQ_ALL(1.0f), y, r);
    return y * SQ_REAL((SQ_BITS(n) - 0x4B400000 + 127) << 23);
}

/* GELU: max(x, 0) - |x| P(normal < -|x|), whose log2 is a polynomial of |x|. The length is a multiple of 16. */
SQ_TARGET static void SQ_NAME(gelu)(float *x, long count) {
    const SQ_NAME(vector) zero = {0};
    long i;
    for (i = 0; i < count; i += SQ_LANES) {
        SQ_NAME(vector) value = SQ_FLOATS(x + i), size = SQ_REAL(SQ_BITS(value) & 0x7FFFFFFF), tail;
        tail = SQ_ADD(SQ_ALL(SQ_TAIL_1), size, SQ_ALL(SQ_TAIL_0));
        tail = SQ_ADD(SQ_ALL(SQ_TAIL_2), tail, size);
        tail = SQ_ADD(SQ_ALL(SQ_TAIL_3), tail, size);
        tail = SQ_ADD(SQ_ALL(SQ_TAIL_4), tail, size);
        tail = SQ_ADD(SQ_ALL(SQ_TAIL_5), tail, size);
        SQ_PUT(x + i) = SQ_ADD(SQ_LARGER(value, zero), zero - size, SQ_NAME(exp2)(tail));
    }
}

/* Sums of 16 numbers, in the same order everywhere. */
SQ_INLINE float SQ_NAME(total)(const float *sum) {
    float total = 0;
    int i;
    for (i = 0; i < 4; ++i) total += (sum[i] + sum[i + 4]) + (sum[i + 8] + sum[i + 12]);
    return total;
}

SQ_TARGET static float SQ_NAME(dot)(const float *a, const float *b, int count) {
    const SQ_NAME(vector) zero = {0};
    float sum[SQ_PANEL];
    int lane, i;
    for (lane = 0; lane < SQ_PANEL; lane += SQ_LANES) {
        SQ_NAME(vector) part = zero;
        for (i = lane; i < count; i += SQ_PANEL) part = SQ_ADD(part, SQ_FLOATS(a + i), SQ_FLOATS(b + i));
        SQ_PUT(sum + lane) = part;
    }
    return SQ_NAME(total)(sum);
}

/* Add numbers times a factor. */
SQ_TARGET static void SQ_NAME(add)(float *to, const float *numbers, float factor, int count) {
    int i;
    for (i = 0; i < count; i += SQ_LANES)
        SQ_PUT(to + i) = SQ_ADD(SQ_FLOATS(to + i), SQ_FLOATS(numbers + i), SQ_ALL(factor));
}

/* Scale rows to length 1. As in PyTorch's layer norm, 1e-5 is added to the mean of the squares. */
SQ_TARGET static void SQ_NAME(unit)(const float *x, int rows, float *out) {
    for (; rows > 0; --rows, x += SQ_WIDTH, out += SQ_WIDTH) {
        float scale = 1 / sqrtf(1e-5f * (float)SQ_WIDTH + SQ_NAME(dot)(x, x, SQ_WIDTH));
        int i;
        for (i = 0; i < SQ_WIDTH; i += SQ_LANES) SQ_PUT(out + i) = SQ_FLOATS(x + i) * scale;
    }
}

/* Softmax of the first `count` scores; the row has room for a multiple of 16. */
SQ_TARGET static void SQ_NAME(soften)(float *scores, int count) {
    const SQ_NAME(vector) zero = {0};
    float sum[SQ_PANEL] = {0}, most, scale;
    int padded = (count + SQ_PANEL - 1) / SQ_PANEL * SQ_PANEL, i, lane;
    for (i = count; i < padded; ++i) scores[i] = -1e30f;
    for (lane = 0; lane < SQ_PANEL; lane += SQ_LANES) {
        SQ_NAME(vector) largest = SQ_FLOATS(scores + lane);
        for (i = lane + SQ_PANEL; i < padded; i += SQ_PANEL) largest = SQ_LARGER(largest, SQ_FLOATS(scores + i));
        SQ_PUT(sum + lane) = largest;
    }
    for (i = 0; i < 8; ++i) sum[i] = sum[i] > sum[i + 8] ? sum[i] : sum[i + 8];
    for (i = 0; i < 4; ++i) sum[i] = sum[i] > sum[i + 4] ? sum[i] : sum[i + 4];
    for (i = 1, most = sum[0]; i < 4; ++i) if (sum[i] > most) most = sum[i];
    for (lane = 0; lane < SQ_PANEL; lane += SQ_LANES) {
        SQ_NAME(vector) part = zero;
        for (i = lane; i < padded; i += SQ_PANEL) {
            SQ_NAME(vector) power = SQ_NAME(exp2)((SQ_FLOATS(scores + i) - most) * 1.44269504f); /* log2 e */
            SQ_PUT(scores + i) = power;
            part += power;
        }
        SQ_PUT(sum + lane) = part;
    }
    scale = 1 / SQ_NAME(total)(sum);
    for (i = 0; i < padded; i += SQ_LANES) SQ_PUT(scores + i) = SQ_FLOATS(scores + i) * scale;
}

static const sq_math SQ_NAME(math) = {SQ_NAME(linear), SQ_NAME(product), SQ_NAME(gelu), SQ_NAME(soften),
                                      SQ_NAME(table), SQ_NAME(unit), SQ_NAME(dot), SQ_NAME(add)};
#undef SQ_LANES
#undef SQ_BITS
#undef SQ_REAL
#undef SQ_MASK
#undef SQ_FLOATS
#undef SQ_PUT
#undef SQ_ALL
#undef SQ_ADD
#undef SQ_LARGER
#undef SQ_PAIRS
#undef SQ_DIGITS
#undef SQ_EVEN
#undef SQ_ODD
