/* ${problem}
   ${configuration}
${arrays}

   Arrays are contiguous. The functions return 0, or else 1, and ${name}_error says why. Two threads must not use one
   kernel at once; each may have its own. */

#ifndef ${guard}
#define ${guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

${handles}
/* The kernel on a device, with its code and its memory there. */
struct ${name};

/* ${created}
   Returns NULL without memory for it; where anything else fails, the other functions return 1 and ${name}_error why. */
struct ${name} *${name}_create(${create_parameters});
${pack}/* All of it: copies the operands to the device, launches, waits, and copies the results. */
int ${name}(struct ${name} *kernel, ${plain});
/* Launches on memory of the device and does not wait. A null address is the memory of the last call of ${name}. */
int ${name}_run(struct ${name} *kernel, ${memories});
/* The seconds of one more run on the memory of the last call of ${name}; below 0 where it fails. */
double ${name}_seconds(struct ${name} *kernel);
const char *${name}_device(const struct ${name} *kernel);    /* its name */
const char *${name}_error(const struct ${name} *kernel);
void ${name}_free(struct ${name} *kernel);

#ifdef __cplusplus
}
#endif

#endif
