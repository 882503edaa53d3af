/* Gaussian processes estimate log(time / best time): what was measured counts less the farther away it is. */

static double sq_near(const double *point, const float *other, int count) {
    double sum = 0;
    for (; count > 0; --count, ++point, ++other) sum += ((double)*other - *point) * ((double)*other - *point);
    return exp(-sqrt(sum));
}

/* Estimate the slowness of configurations whose features the trees have read. */
static void sq_ask_processes(const sq_work *w, const sq_proposal *proposals, int count, double *slowness) {
    double at[SQ_TOGETHER][SQ_COORDINATES], share[SQ_TOGETHER];
    float point[SQ_COORDINATES + 1];
    int space, row, i;
    for (row = 0; row < count; ++row) {
        const sq_process *process = &sq_processes[proposals[row].space];
        for (i = 0; i < process->coordinates; ++i) {
            double number = (double)w->descent.features[row][process->columns[i]], size = fabs(number);
            size = log2(1 + (size > SQ_LARGEST_FEATURE ? SQ_LARGEST_FEATURE : size));
            at[row][i] = ((number < 0 ? -size : size) - (double)process->centre[i]) * (double)process->scale[i];
        }
        slowness[row] = process->mean;
    }
    for (space = 0; space < SQ_KERNELS; ++space) {
        const sq_process *process = &sq_processes[space];
        const char *const *measured = process->measured;
        int of_task = process->coordinates - process->own, last = -1;
        for (row = 0; row < count && proposals[row].space != space;) ++row;
        if (row == count) continue;
        for (; *measured; ++measured) {
            int task = (int)sq_number(*measured, 2);
            for (row = 0; row < count && task != last; ++row)
                if (proposals[row].space == space)
                    share[row] = process->shared + process->by_task * sq_near(
                        at[row] + process->own, process->task_points + (long)task * of_task, of_task);
            last = task;
            for (i = 0; i <= process->own; ++i) point[i] = sq_float(sq_number(*measured + 2 + 5 * i, 5));
            for (row = 0; row < count; ++row)
                if (proposals[row].space == space)
                    slowness[row] += sq_near(at[row], point, process->own) * share[row] * (double)point[process->own];
        }
    }
}
