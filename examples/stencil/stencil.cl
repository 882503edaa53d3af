// Time steps of the heat equation. One launch makes `depth` steps: a work-group reads its tile with a margin of `depth`
// cells, steps in local memory, and writes the tile. Cells outside the grid are 0. The margin's own outermost cells go
// wrong by one cell a step and never reach the tile.

#define WIDTH (tile_x + 2 * depth)
#define HEIGHT (tile_y + 2 * depth)

__kernel void heat(__global const float *x, __global float *y, __global float *workspace, int rows, int columns,
                   int launch, int launches)
{
    __local float cells[2][HEIGHT * WIDTH];
    // The last launch writes y, the one before it the workspace, and so on.
    __global const float *from = launch == 0 ? x : (launches - launch) % 2 ? workspace : y;
    __global float *to = (launches - launch) % 2 ? y : workspace;
    const int left = (int)get_group_id(0) * tile_x - depth, top = (int)get_group_id(1) * tile_y - depth;

    for (int i = get_local_id(1); i < HEIGHT; i += group_y)
        for (int j = get_local_id(0); j < WIDTH; j += group_x) {
            const int row = top + i, column = left + j;
            const int inside = row >= 0 && row < rows && column >= 0 && column < columns;
            cells[0][i * WIDTH + j] = inside ? from[row * columns + column] : 0.0f;
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int step = 0; step < depth; step++) {
        __local const float *old = cells[step % 2];
        __local float *next = cells[(step + 1) % 2];
        for (int i = get_local_id(1); i < HEIGHT; i += group_y)
            for (int j = get_local_id(0); j < WIDTH; j += group_x) {
                const int row = top + i, column = left + j, cell = i * WIDTH + j;
                const int inside = row >= 0 && row < rows && column >= 0 && column < columns;
                float value = 0.0f;
                if (inside && i > 0 && i < HEIGHT - 1 && j > 0 && j < WIDTH - 1)
                    value = 0.5f * old[cell]
                        + 0.125f * (old[cell - WIDTH] + old[cell + WIDTH] + old[cell - 1] + old[cell + 1]);
                next[cell] = value;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (int i = get_local_id(1); i < tile_y; i += group_y)
        for (int j = get_local_id(0); j < tile_x; j += group_x) {
            const int row = top + depth + i, column = left + depth + j;
            if (row < rows && column < columns)
                to[row * columns + column] = cells[depth % 2][(i + depth) * WIDTH + j + depth];
        }
}
