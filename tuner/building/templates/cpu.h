/* ${about}

   Arrays are contiguous. The functions return 0, or a code that ${library}_error explains; they keep nothing, so that
   several threads may call them at once, with a workspace for each call. Packed constants and workspaces are memory of
   the caller, which should begin at a multiple of 64 bytes. */

#ifndef ${LIBRARY}_H
#define ${LIBRARY}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *${library}_error(int code);
${kernels}
#ifdef __cplusplus
}
#endif

#endif
