// The sum of each row. The work-items of a group add `vector * unroll` neighbouring numbers at a time; what is left at a
// row's end they add one by one. `rows_at_once` rows of a group share the barriers of the tree.

#define CONCATENATE(a, b) a##b
#define NAME(a, b) CONCATENATE(a, b)
#if vector == 1
#define VECTOR float
#define LOAD(p) (*(p))
#else
#define VECTOR NAME(float, vector)
#define LOAD(p) NAME(vload, vector)(0, p)
#endif

// The sum of a vector's numbers: NAME(TOTAL, vector) adds its halves until one number is left.
#define TOTAL1(v) (v)
#define TOTAL2(v) ((v).x + (v).y)
#define TOTAL4(v) TOTAL2((v).lo + (v).hi)
#define TOTAL8(v) TOTAL4((v).lo + (v).hi)

__kernel void row_sums(__global const float *x, __global float *y, int rows, int columns)
{
    __local float sums[rows_at_once][group];
    const int item = get_local_id(0), first = (int)get_group_id(0) * rows_at_once;
    const int part = vector * unroll, whole = columns / part;

    for (int r = 0; r < rows_at_once; r++) {
        float sum = 0.0f;
        if (first + r < rows) {
            __global const float *row = x + (long)(first + r) * columns;
            VECTOR sum_of[unroll];
            for (int u = 0; u < unroll; u++)
                sum_of[u] = (VECTOR)(0.0f);
            for (int i = item; i < whole; i += group)
                for (int u = 0; u < unroll; u++)
                    sum_of[u] += LOAD(row + i * part + u * vector);
            for (int u = 0; u < unroll; u++)
                sum += NAME(TOTAL, vector)(sum_of[u]);
            for (int i = whole * part + item; i < columns; i += group)
                sum += row[i];
        }
        sums[r][item] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = group / 2; half_of > 0; half_of /= 2) {
        if (item < half_of)
            for (int r = 0; r < rows_at_once; r++)
                sums[r][item] += sums[r][item + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        for (int r = 0; r < rows_at_once && first + r < rows; r++)
            y[first + r] = sums[r][0];
}
