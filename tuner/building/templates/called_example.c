/* cc -std=c99 -O2 program.c ${name}.c -ldl */
#include "${name}.h"
#include <stdio.h>

int main(void)
{
    static ${arrays};
    struct ${name} *kernel = ${name}_create(${create});
    /* fill the arrays */
    if (${pack}${name}(kernel, ${kept}))
        return fprintf(stderr, "%s\n", ${name}_error(kernel)), 1;
    ${name}_free(kernel);
    return 0;
}
