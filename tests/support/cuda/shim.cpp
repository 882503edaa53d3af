// Runs the lanes of a block as fibres, in a random order between the points where they wait for each other.
//
// In most runs one warp, or one block of a cluster, is much slower than the others. Shared memory begins as NaN. An
// asynchronous copy makes its target NaN at once and lands at a random one of the two extremes that the hardware may
// choose: immediately, or when its group is waited for. Two lanes that touch the same bytes of shared memory between
// two barriers of the block, one of them writing, are reported as a race.
#include "shim.hpp"
#include "internals.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

alignas(1024) static unsigned char memories[shim::MOST_RANKS][shim::SHARED];

// Saves the registers that a call must keep, and continues on another stack (System V, x86-64).
asm(R"(
.text
.hidden shim_switch
.globl shim_switch
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" void shim_switch(void **save, void *load);

namespace shim {
enum { READY, WAITS, DONE };
constexpr unsigned STACK = 1 << 17, NOBODY = 0xFFFF, SEVERAL = 0xFFFE;
constexpr unsigned GRAIN = 2;  // bytes that the race detector tells apart: an element

struct Range { const char *begin, *end; bool writable; };
struct Touch { unsigned write_epoch, read_epoch; unsigned short writer, reader; };

Lane *current;
Size grid_size, block_size;
unsigned shared_size;
bool brain;

static Lane lanes[MOST_LANES];
static std::vector<Copy> copies[MOST_LANES];
static Meeting warps[MOST_LANES / 32], blocks[MOST_RANKS], cluster;
static char *stacks;
static void *scheduler;
static unsigned slow_warp, slow_rank, lane_count, ranks, epochs[MOST_RANKS], alive[MOST_RANKS];
static void (*launcher)(void **);
static void **values;
static Range ranges[8];
static unsigned range_count;
static Touch touches[MOST_RANKS][SHARED / GRAIN];
static char message[400];
static uint64_t state;

unsigned chance(unsigned below) {  // xorshift64
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return static_cast<unsigned>(state >> 33) % below;
}
static void leave() { shim_switch(&current->stack_pointer, scheduler); }

void fail(const char *format, ...) {
  char what[300];
  va_list given;
  va_start(given, format);
  vsnprintf(what, sizeof(what), format, given);
  va_end(given);
  snprintf(message, sizeof(message), "%s (block %u,%u,%u, thread %u)", what, current->block.x, current->block.y,
           current->block.z, current->index % (lane_count / ranks));
  leave();
  abort();  // the scheduler never comes back to a lane that failed
}

Meeting &warp_of(const Lane &lane) { return warps[lane.index / 32]; }
Meeting &whole_block() { return blocks[current->rank]; }
void report(const char *what) {
  if (!message[0]) snprintf(message, sizeof(message), "%s", what);
}
bool ended(unsigned rank) { return alive[rank] == 0; }
unsigned char *memory_of(unsigned rank) { return memories[rank]; }

void meet(Meeting &meeting, const char *name, void *argument, void (*act)(void **, unsigned)) {
  if (meeting.arrived == 0) meeting.name = name;
  else if (strcmp(meeting.name, name) != 0) fail("divergent: lanes are at %s and at %s", meeting.name, name);
  meeting.arguments[current->index - meeting.first] = argument;
  if (++meeting.arrived < meeting.expected) {
    current->state = WAITS;
    current->waits_for = name;
    current->meeting = &meeting;
    leave();
    return;
  }
  meeting.arrived = 0;
  if (act) act(meeting.arguments, meeting.expected);
  for (unsigned i = 0; i < lane_count; i++)
    if (lanes[i].state == WAITS && lanes[i].meeting == &meeting) {
      lanes[i].state = READY;
      lanes[i].meeting = nullptr;
    }
}
void wait_until(const char *name, bool (*ready)(const void *), const void *subject) {
  if (ready(subject)) return;
  current->state = WAITS;
  current->waits_for = name;
  current->ready = ready;
  current->subject = subject;
  leave();
}
void barrier() {
  meet(whole_block(), "__syncthreads", nullptr, [](void **, unsigned) { epochs[current->rank]++; });
}
void cluster_sync() {
  meet(cluster, "barrier.cluster", nullptr, [](void **, unsigned) {
    for (unsigned &epoch : epochs) epoch++;
  });
}

void check_global(const void *from, int bytes, int alignment, bool write) {
  const char *at = static_cast<const char *>(from);
  if (reinterpret_cast<uintptr_t>(at) % alignment)
    fail("misaligned: %d bytes of global memory at an address that is no multiple of %d", bytes, alignment);
  for (unsigned i = 0; i < range_count; i++)
    if (at >= ranges[i].begin && at + bytes <= ranges[i].end) {
      if (write && !ranges[i].writable) fail("writes to operand %u", i);
      return;
    }
  for (unsigned i = 0; i < range_count; i++)
    if (at >= ranges[i].begin - 4096 && at < ranges[i].end + 4096)
      fail("out of bounds: %s %d bytes at offset %ld of operand %u, which has %ld", write ? "writes" : "reads", bytes,
           static_cast<long>(at - ranges[i].begin), i, static_cast<long>(ranges[i].end - ranges[i].begin));
  fail("out of bounds: %s %d bytes at an address in no operand", write ? "writes" : "reads", bytes);
}

static void touch(unsigned offset, int bytes, bool write) {
  const unsigned lane = current->index, epoch = epochs[current->rank];
  for (unsigned i = offset / GRAIN; i < (offset + bytes + GRAIN - 1) / GRAIN; i++) {
    Touch &last = touches[current->rank][i];
    if (last.write_epoch == epoch && last.writer != lane)
      fail("race: thread %u wrote the bytes at %u of shared memory since the last barrier", last.writer, i * GRAIN);
    if (write) {
      if (last.read_epoch == epoch && last.reader != lane)
        fail("race: thread %u reads the bytes at %u of shared memory without a barrier before this write",
             last.reader, i * GRAIN);
      last.write_epoch = epoch;
      last.writer = lane;
    } else {
      last.reader = last.read_epoch == epoch && last.reader != lane ? SEVERAL : lane;
      last.read_epoch = epoch;
    }
  }
}
void check_shared(unsigned offset, int bytes, bool write) {
  if (offset % bytes) fail("misaligned: %d bytes of shared memory at %u", bytes, offset);
  if (offset > shared_size || offset + bytes > shared_size)
    fail("out of bounds: %s %d bytes at %u of %u bytes of shared memory", write ? "writes" : "reads", bytes, offset,
         shared_size);
  touch(offset, bytes, write);
}

static void finish(const Copy &copy) {
  memset(shared_memory + copy.offset, 0, copy.bytes);
  if (copy.valid > 0) memcpy(shared_memory + copy.offset, copy.from, copy.valid);
}
void copy_later(const Copy &copy) {
  if (copy.valid < 0 || copy.valid > copy.bytes) fail("cp.async of %d valid bytes out of %d", copy.valid, copy.bytes);
  if (reinterpret_cast<uintptr_t>(copy.from) % copy.bytes) fail("misaligned: cp.async of %d bytes", copy.bytes);
  if (copy.valid > 0) check_global(copy.from, copy.valid, copy.bytes, false);
  check_shared(copy.offset, copy.bytes, true);
  memset(shared_memory + copy.offset, 0xFF, copy.bytes);
  Copy later = copy;
  later.group = current->committed;
  if (chance(2)) finish(copy);
  else copies[current->index].push_back(later);
}
void land(unsigned pending) {
  std::vector<Copy> &left = copies[current->index];
  size_t landed = 0;
  while (landed < left.size() && left[landed].group + pending < current->committed) {
    check_shared(left[landed].offset, left[landed].bytes, true);
    finish(left[landed++]);
  }
  left.erase(left.begin(), left.begin() + landed);
}

float widened(element value) {
  uint32_t bits;
  float wide;
  if (brain) bits = static_cast<uint32_t>(value) << 16;
  else {
    const uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16, exponent = value >> 10 & 31, rest = value & 1023;
    if (exponent == 0) {
      wide = static_cast<float>(rest) / 16777216.0f;  // 2**24: subnormal
      return sign ? -wide : wide;
    }
    bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | rest << 13;
  }
  memcpy(&wide, &bits, 4);
  return wide;
}
element narrowed(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (value != value) return 0x7FFF;
  if (brain) return static_cast<element>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  const _Float16 half = static_cast<_Float16>(value);
  element narrow;
  memcpy(&narrow, &half, 2);
  return narrow;
}

struct Matrices { unsigned *r; unsigned offset; };

static unsigned conflicts;  // matrices of which two rows lie in the same four banks

template <bool TRANSPOSED> static void load_matrices(void **arguments, unsigned) {
  for (unsigned matrix = 0; matrix < 4; matrix++) {
    unsigned banks = 0;
    for (unsigned row = 0; row < 8; row++)
      banks |= 1u << static_cast<Matrices *>(arguments[matrix * 8 + row])->offset / 16 % 8;
    conflicts += banks != 0xFF;
  }
  for (unsigned lane = 0; lane < 32; lane++) {
    const Matrices &mine = *static_cast<Matrices *>(arguments[lane]);
    for (unsigned matrix = 0; matrix < 4; matrix++) {
      const unsigned row = TRANSPOSED ? lane % 4 * 2 : lane / 4, column = TRANSPOSED ? lane / 4 : lane % 4 * 2;
      const unsigned first = static_cast<Matrices *>(arguments[matrix * 8 + row])->offset;
      const unsigned second = TRANSPOSED ? static_cast<Matrices *>(arguments[matrix * 8 + row + 1])->offset : first + 2;
      element low, high;
      memcpy(&low, shared_memory + first + column * 2, 2);
      memcpy(&high, shared_memory + second + column * 2, 2);
      mine.r[matrix] = low | static_cast<unsigned>(high) << 16;
    }
  }
}
void ldmatrix(unsigned *r, unsigned offset, bool transposed) {
  check_shared(offset, 16, false);
  Matrices mine = {r, offset};
  meet(warp_of(*current), transposed ? "ldmatrix.trans" : "ldmatrix", &mine,
       transposed ? load_matrices<true> : load_matrices<false>);
}

struct Product { float *d; const unsigned *a; unsigned b[2]; };

static void multiply(void **arguments, unsigned) {
  float a[16][16], b[8][16];
  for (unsigned lane = 0; lane < 32; lane++) {
    const Product &mine = *static_cast<Product *>(arguments[lane]);
    for (unsigned i = 0; i < 4; i++)
      for (unsigned half = 0; half < 2; half++)
        a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8 + half] = widened(mine.a[i] >> half * 16 & 0xFFFF);
    for (unsigned i = 0; i < 2; i++)
      for (unsigned half = 0; half < 2; half++)
        b[lane / 4][lane % 4 * 2 + i * 8 + half] = widened(mine.b[i] >> half * 16 & 0xFFFF);
  }
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 4; i++) {
      const float *row = a[lane / 4 + i / 2 * 8], *column = b[lane % 4 * 2 + i % 2];
      float sum = 0.0f;
      for (unsigned k = 0; k < 16; k++) sum += row[k] * column[k];
      static_cast<Product *>(arguments[lane])->d[i] += sum;
    }
}
void mma(float *d, const unsigned *a, unsigned b0, unsigned b1) {
  Product mine = {d, a, {b0, b1}};
  meet(warp_of(*current), "mma", &mine, multiply);
}

static void lane_main() {
  launcher(values);
  current->state = DONE;
  alive[current->rank]--;
  leave();
  abort();
}
static void prepare(Lane &lane, unsigned index, unsigned first) {
  const unsigned thread = index % (lane_count / ranks);
  lane = Lane();
  lane.index = index;
  lane.rank = index / (lane_count / ranks);
  lane.memory = memories[lane.rank];
  lane.thread = {thread % block_size.x, thread / block_size.x % block_size.y, thread / block_size.x / block_size.y};
  const unsigned block = first + lane.rank;
  lane.block = {block % grid_size.x, block / grid_size.x % grid_size.y, block / grid_size.x / grid_size.y};
  copies[index].clear();
  void **top = reinterpret_cast<void **>(stacks + static_cast<size_t>(index + 1) * STACK - 64);
  top[0] = reinterpret_cast<void *>(lane_main);  // where the first switch returns to, with the stack as after a call
  lane.stack_pointer = top - 6;
}
static bool dawdles(const Lane &lane) {
  return (lane.index / 32 == slow_warp || lane.rank == slow_rank) && chance(16) != 0;
}
static void report_deadlock() {
  for (unsigned i = 0; i < lane_count; i++)
    if (lanes[i].state == WAITS) {
      unsigned done = 0, same = 0;
      for (unsigned j = 0; j < lane_count; j++) {
        done += lanes[j].state == DONE;
        same += lanes[j].state == WAITS && !strcmp(lanes[j].waits_for, lanes[i].waits_for);
      }
      snprintf(message, sizeof(message), "divergent: %u of %u threads wait at %s, %u have ended (block %u,%u,%u)", same,
               lane_count, lanes[i].waits_for, done, lanes[i].block.x, lanes[i].block.y, lanes[i].block.z);
      return;
    }
}
static void run_cluster(unsigned first) {
  for (unsigned rank = 0; rank < ranks; rank++) {
    memset(memories[rank], 0xFF, shared_size);
    epochs[rank]++;  // never begins again, so no touch of a block before counts
    alive[rank] = lane_count / ranks;
    blocks[rank] = Meeting();
    blocks[rank].first = rank * alive[rank];
    blocks[rank].expected = alive[rank];
  }
  cluster = Meeting();
  cluster.expected = lane_count;
  slow_warp = chance(2) ? chance(lane_count / 32 + 1) : MOST_LANES;
  slow_rank = ranks > 1 && chance(2) ? chance(ranks) : ranks;
  begin_engines();
  for (unsigned i = 0; i < lane_count; i++) {
    prepare(lanes[i], i, first);
    if (i % 32 == 0) {
      warps[i / 32].arrived = 0;
      warps[i / 32].first = i;
      warps[i / 32].expected = lane_count - i < 32 ? lane_count - i : 32;
    }
  }
  std::vector<unsigned> ready;
  while (!message[0]) {
    ready.clear();
    bool waiting = false;
    for (unsigned i = 0; i < lane_count; i++) {
      Lane &lane = lanes[i];
      if (lane.state == WAITS && lane.ready && lane.ready(lane.subject)) {
        lane.state = READY;
        lane.ready = nullptr;
      }
      waiting |= lane.state == WAITS;
      if (lane.state == READY) ready.push_back(i);
    }
    const bool landed = run_engines(ready.empty());
    if (ready.empty()) {
      if (landed) continue;
      if (waiting) report_deadlock();
      else end_engines();
      return;
    }
    for (size_t left = ready.size(); left > 0 && !message[0]; left--) {  // all that are ready, in a random order
      const size_t chosen = chance(static_cast<unsigned>(left));
      current = &lanes[ready[chosen]];
      ready[chosen] = ready[left - 1];
      if (dawdles(*current)) continue;
      shim_switch(&scheduler, current->stack_pointer);
    }
  }
}
}  // namespace shim

// Runs a grid, its blocks in a random order. Returns "" or what went wrong. Sizes are those of cuLaunchKernel; `values`
// points to the arguments; a range is (begin, bytes, whether it may be written).
extern "C" const char *shim_run(void (*entry)(void **), void **values, const unsigned *grid, const unsigned *block,
                                unsigned shared, unsigned cluster, int brain, uint64_t seed, void **begins, const uint64_t *bytes,
                                const int *writable, unsigned count) {
  using namespace shim;
  if (!stacks) stacks = static_cast<char *>(malloc(static_cast<size_t>(MOST_LANES) * STACK + 64));
  message[0] = 0;
  state = seed * 0x9E3779B97F4A7C15u + 0x1234567;
  launcher = entry;
  shim::values = values;
  shim::brain = brain;
  shared_size = shared;
  grid_size = {grid[0], grid[1], grid[2]};
  block_size = {block[0], block[1], block[2]};
  ranks = cluster;
  lane_count = block[0] * block[1] * block[2] * cluster;
  if (cluster > MOST_RANKS || grid[0] % cluster) return "clusters that the shim lacks";
  if (lane_count > MOST_LANES || shared > SHARED) return "more threads or shared memory than a block has";
  range_count = count;
  for (unsigned i = 0; i < count; i++)
    ranges[i] = {static_cast<char *>(begins[i]), static_cast<char *>(begins[i]) + bytes[i], writable[i] != 0};
  std::vector<unsigned> order(static_cast<size_t>(grid[0]) * grid[1] * grid[2] / cluster);
  for (size_t i = 0; i < order.size(); i++) {
    const size_t at = chance(static_cast<unsigned>(i + 1));
    order[i] = order[at];
    order[at] = static_cast<unsigned>(i);
  }
  for (unsigned index : order) {
    run_cluster(index * cluster);
    if (message[0]) break;
  }
  return message;
}

// The number of matrices that ldmatrix loaded with bank conflicts since the last call.
extern "C" unsigned shim_conflicts() {
  const unsigned count = shim::conflicts;
  shim::conflicts = 0;
  return count;
}
