// What the two halves of the shim, shim.cpp and hopper.cpp, tell each other.
#pragma once

namespace shim {
constexpr unsigned MOST_LANES = 1024, MOST_RANKS = 2, WARPGROUP = 128;  // lanes and blocks of a cluster
constexpr unsigned SHARED = 232448;  // bytes of shared memory: the most that a block of sm_90 can have

unsigned chance(unsigned below);
void report(const char *what);  // outside of a lane
bool ended(unsigned rank);  // whether all lanes of a block of the cluster have ended
unsigned char *memory_of(unsigned rank);

void begin_engines();
void end_engines();
bool run_engines(bool hurry);  // lands some copies, or all in a hurry; returns whether there were any
}  // namespace shim
