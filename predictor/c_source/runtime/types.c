/* Types of tables and of the state of a query. */

typedef struct { long quad; int count; } sq_run;
typedef struct { int in, out; long quad, kept; const float *scale, *bias; } sq_linear;
typedef struct { long quad; const float *scale; } sq_table;
typedef struct { long quad; int rows; float scale; } sq_map;
typedef struct { sq_linear words, out, cross_query, cross_out, inner, outer; } sq_layer;
typedef struct { /* `fractions`: the values, if some have fractions; then `values` has their whole parts */
    const char *name;
    const int64_t *values;
    const double *fractions;
    int count, slot, is_word;
} sq_parameter;
typedef struct { int column, slot, number, index; } sq_quantity;
typedef struct { int name, kind, slot, position; } sq_fact;
typedef struct { int fact, word, number; } sq_word_pair;
typedef struct { int kind, first, second; } sq_column; /* a feature of trees */
typedef struct { int feature, count; const char *thresholds; } sq_split;
typedef struct { const sq_split *splits; const char *const *trees; } sq_forest;
typedef struct { const sq_column *columns; const sq_forest *forests; } sq_trees;

typedef struct { /* the Gaussian process of a kernel; coordinates are those of configurations, then those of tasks */
    int own, coordinates;
    double mean, shared, by_task;
    const int *columns;
    const float *centre, *scale, *task_points;
    const char *const *measured;
} sq_process;

typedef struct { /* a configuration: its kernel and the numbers of its values */
    double cost; /* - log-probability */
    int space;
    uint16_t index[SQ_PARAMETERS + 1];
} sq_proposal;

typedef struct { /* values by slot: whole numbers and words `i`, numbers `d`; `big`: more than 64 bits, so it is in `d` */
    int operation, over, undefined, fault, holds, completions, most; /* completions that are kept */
    long left; /* checks of constraints until the prediction is given up */
    int64_t i[SQ_SLOTS];
    double d[SQ_SLOTS], tensor[3], flop, size;
    unsigned char big[SQ_SLOTS], known[SQ_SLOTS];
    uint16_t index[SQ_PARAMETERS + 1];
    sq_proposal *kept; /* the first `most` completions */
} sq_state;

typedef struct {
    const char *name;
    int parameters, quantities, word;
    const sq_parameter *parameter;
    const sq_quantity *quantity;
    const uint16_t *const *words; /* the target words of the values of each parameter */
    int (*solves)(sq_state *);
    uint32_t (*check)(sq_state *, int), (*resolve)(sq_state *, int);
} sq_kernel;

typedef struct { /* the beginning of a sentence */
    double cost; /* - log-probability */
    int space, length, complete, word;
    uint16_t index[SQ_PARAMETERS + 1], path[SQ_LONGEST + 1];
    float sums[SQ_SUMS];
} sq_hypothesis;

typedef struct { /* a word that may follow a hypothesis */
    double cost;
    int parent, space, value, word, complete;
    float score, octave[SQ_FRESH + 1];
} sq_candidate;

typedef struct { int parent, candidate; double cost; } sq_choice; /* candidate -1: the parent itself, complete */

struct sq_rows;
struct sq_panels;
typedef struct {
    void (*linear)(const sq_linear *, const struct sq_rows *);
    void (*product)(const struct sq_rows *, const struct sq_panels *);
    void (*gelu)(float *, long);
    void (*soften)(float *, int);
    void (*table)(long, int, float *);
    void (*unit)(const float *, int, float *);
    float (*dot)(const float *, const float *, int);
    void (*add)(float *, const float *, float, int);
} sq_math;
