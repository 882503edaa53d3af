// The convolution of an image with a filter of SIZE x SIZE. A work-group loads what its results need into local memory,
// whose rows have `padding` more columns. A work-item's results lie a group's size apart.

#define ROWS (block_size_y * tile_size_y)
#define COLUMNS (block_size_x * tile_size_x)
#define IN_ROWS (ROWS + SIZE - 1)
#define IN_COLUMNS (COLUMNS + SIZE - 1)

__kernel void image_filter(__global float *y, __global const float *x, __constant float *weights, int height, int width)
{
    __local float part[IN_ROWS][IN_COLUMNS + padding];
    const int across = get_local_id(0), down = get_local_id(1);
    const int top = (int)get_group_id(1) * ROWS, left = (int)get_group_id(0) * COLUMNS;
    const int in_height = height + SIZE - 1, in_width = width + SIZE - 1;
    float sums[tile_size_y][tile_size_x];

    for (int i = down; i < IN_ROWS; i += block_size_y)
        for (int j = across; j < IN_COLUMNS; j += block_size_x) {
            const int row = top + i, column = left + j;
            part[i][j] = row < in_height && column < in_width ? x[row * in_width + column] : 0.0f;
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++)
            sums[i][j] = 0.0f;
    for (int r = 0; r < SIZE; r++)
#if unroll
#pragma unroll
#endif
        for (int s = 0; s < SIZE; s++)
            for (int i = 0; i < tile_size_y; i++)
                for (int j = 0; j < tile_size_x; j++)
                    sums[i][j] += weights[r * SIZE + s]
                        * part[down + i * block_size_y + r][across + j * block_size_x + s];

    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++) {
            const int row = top + down + i * block_size_y, column = left + across + j * block_size_x;
            if (row < height && column < width)
                y[row * width + column] = sums[i][j];
        }
}
