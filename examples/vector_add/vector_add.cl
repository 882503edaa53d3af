// c = a + b. A work-item adds `items` numbers: side by side, `vector` of them at a time, or `block_size` apart.

#define adjacent 0
#define strided 1
#define CONCATENATE(a, b) a##b
#define NAME(a, b) CONCATENATE(a, b)

__kernel void vector_add(__global float *c, __global const float *a, __global const float *b, int n)
{
    const int item = get_local_id(0), first = (int)get_group_id(0) * block_size * items;
#if order == strided
    for (int i = first + item, k = 0; k < items; i += block_size, k++)
        if (i < n)
            c[i] = a[i] + b[i];
#else
    const int begin = first + item * items;
#if vector > 1
    if (begin + items <= n) {
        for (int i = begin; i < begin + items; i += vector)
            NAME(vstore, vector)(NAME(vload, vector)(0, a + i) + NAME(vload, vector)(0, b + i), 0, c + i);
        return;
    }
#endif
    for (int i = begin; i < min(begin + items, n); i++)
        c[i] = a[i] + b[i];
#endif
}
