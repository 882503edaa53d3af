
/* ${problem}
   ${configuration}
${arrays} */
enum { ${NAME}_SHARES = ${shares}, ${NAME}_PHASES = ${phase_count} };
#define ${NAME}_WORKSPACE_BYTES ${workspace_bytes}
#define ${NAME}_PACKED_BYTES ${packed_bytes}

/* All of it: allocates what it needs and frees it. */
int ${name}(${plain}, ${y} *y);
${pack_declared}/* Without an allocation, on up to ${NAME}_SHARES threads with OpenMP. */
int ${name}_run(${packed}, ${y} *y, void *workspace);
/* A share of a phase, for threads of the caller's own: a phase begins when all shares of the one before have ended. */
int ${name}_share(${packed}, ${y} *y, void *workspace, int phase, int index);
