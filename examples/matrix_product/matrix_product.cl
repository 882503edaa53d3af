// c = a b, with row-major matrices. A work-group loads `depth` columns of its rows of a, and as many rows of its columns
// of b, into local memory, adds their product to its sums, and goes on until all k columns of a are used. Outside the
// matrices it loads 0.

#define ROWS (block_size_y * tile_size_y)
#define COLUMNS (block_size_x * tile_size_x)

__kernel void matrix_product(__global float *c, __global const float *a, __global const float *b, int m, int n, int k)
{
    __local float of_a[ROWS][depth], of_b[depth][COLUMNS];
    const int x = get_local_id(0), y = get_local_id(1), item = y * block_size_x + x;
    const int top = (int)get_group_id(1) * ROWS, left = (int)get_group_id(0) * COLUMNS;
    float sums[tile_size_y][tile_size_x];

    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++)
            sums[i][j] = 0.0f;

    for (int begin = 0; begin < k; begin += depth) {
        for (int index = item; index < ROWS * depth; index += block_size_x * block_size_y) {
            const int row = top + index / depth, column = begin + index % depth;
            of_a[index / depth][index % depth] = row < m && column < k ? a[row * k + column] : 0.0f;
        }
        for (int index = item; index < depth * COLUMNS; index += block_size_x * block_size_y) {
            const int row = begin + index / COLUMNS, column = left + index % COLUMNS;
            of_b[index / COLUMNS][index % COLUMNS] = row < k && column < n ? b[row * n + column] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < depth; p++)
            for (int i = 0; i < tile_size_y; i++)
                for (int j = 0; j < tile_size_x; j++)
                    sums[i][j] += of_a[y + i * block_size_y][p] * of_b[p][x + j * block_size_x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++) {
            const int row = top + y + i * block_size_y, column = left + x + j * block_size_x;
            if (row < m && column < n)
                c[row * n + column] = sums[i][j];
        }
}
