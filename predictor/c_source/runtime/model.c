/* What a prediction knows of its problem and of the target words. */

typedef struct {
    float codes[SQ_CODES * SQ_NUMBER_CODE];
#if SQ_JUDGE
    float mean[SQ_WIDTH]; /* of the source's states */
#endif
#if !SQ_FIXED_WORDS
    float quantities[SQ_QUANTITIES];
    unsigned char have[SQ_TARGETS]; /* whether the word's vector is computed */
    float vectors[SQ_TARGETS * SQ_WIDTH], asked[SQ_BEAM * (SQ_WIDTH + SQ_HIDDEN)], states[SQ_BEAM * SQ_WIDTH];
    const sq_quantity *resolved; /* the first one of those whose weights are in `rows` */
    float rows[(SQ_FRESH + 1) * 6 * SQ_WIDTH], numbers[SQ_BATCH * (SQ_FRESH + 1) * 6];
#endif
} sq_model;

#if SQ_TREES
typedef struct { /* of trees: the features of proposals, and which of them are below each split's threshold, as bits */
    float features[SQ_TOGETHER][SQ_COLUMNS];
    uint64_t below[SQ_SPLITS];
} sq_descent;
#endif
