static struct ${name} *the_kernel;

static double run_${name}(int way, void *const *arrays, void *packed, void *workspace)
{
    double seconds = -1;
    (void)packed;
    (void)workspace;
    if (the_kernel == NULL)
        the_kernel = ${name}_create(${create});
    if (way == 0 ? !${name}(the_kernel, ${plain})
        : ${pack}!${name}(the_kernel, ${kept}))
        seconds = ${name}_seconds(the_kernel);
    if (seconds < 0)
        stop("${name}", ${name}_error(the_kernel));
    return seconds;
}
