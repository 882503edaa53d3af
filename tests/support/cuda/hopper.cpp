// Hopper's asynchronous engines, modelled by the PTX ISA and pessimistically.
//
// A bulk tensor copy makes its target NaN at once, and lands at a random later time, when it counts its bytes on the
// barrier. A product of a warp reads its operands at a random one of two times: at once, or when it is waited for; its
// sums are NaN until then. Each warp of a warpgroup goes its own way. A copy into bytes that a product still reads is
// reported. The swizzle exchanges bits of addresses in shared memory, for copies and products alike.
#include "shim.hpp"
#include "internals.hpp"

#include <map>
#include <vector>

namespace shim {
struct Barrier { unsigned expected, pending, phase; long bytes; bool published; };
struct BoxCopy { CUtensorMap map; unsigned rank, to; Barrier *barrier; int inner, outer; };
struct Sums { float *registers[32]; std::vector<float> values; unsigned pending; };
struct WarpProduct {
  float *key;
  int columns;
  bool rows_adjacent, columns_adjacent, late;
  descriptor a, b;
  unsigned group;
};
struct Warp {
  std::vector<WarpProduct> pending;
  std::map<float *, Sums> sums;  // in flight, by the address of lane 0's registers
  unsigned committed, issued;
  bool open;
};
struct Request { float *sums; int columns; bool rows_adjacent, columns_adjacent; descriptor a, b; };

static std::map<unsigned, Barrier> barriers[MOST_RANKS];  // by offset
static std::vector<BoxCopy> in_flight;
static Warp warps[MOST_LANES / 32];
static std::vector<std::pair<descriptor, descriptor>> issues[MOST_LANES / WARPGROUP];
static unsigned readers[MOST_RANKS][SHARED / 16];  // products that still read a piece of 16 bytes

static Warp &warp_here() { return warps[current->index / 32]; }

void begin_engines() {
  for (auto &of_rank : barriers) of_rank.clear();
  in_flight.clear();
  for (Warp &warp : warps) warp = Warp();
  for (auto &log : issues) log.clear();
  memset(readers, 0, sizeof(readers));
}
void end_engines() {
  if (!in_flight.empty()) report("a block ended before its copies");
  for (Warp &warp : warps)
    if (!warp.pending.empty()) report("a block ended before its products");
}

static Barrier &barrier_at(unsigned offset, unsigned rank) {
  auto place = barriers[rank].find(offset);
  if (place == barriers[rank].end()) fail("no barrier was initialised at %u of shared memory", offset);
  return place->second;
}
static void settle(Barrier &barrier) {
  if (barrier.pending || barrier.bytes) return;
  barrier.phase++;
  barrier.pending = barrier.expected;
}
void barrier_init(unsigned offset, int arrivals) {
  check_shared(offset, 8, true);
  barriers[current->rank][offset] = {static_cast<unsigned>(arrivals), static_cast<unsigned>(arrivals), 0, 0, false};
}
void barrier_publish() {
  for (auto &entry : barriers[current->rank]) entry.second.published = true;
}
void barrier_arrive(unsigned offset, unsigned rank) {
  if (rank == current->rank) check_shared(offset, 8, false);
  if (ended(rank)) fail("arrives at a barrier of a block that has ended");
  Barrier &barrier = barrier_at(offset, rank);
  if (barrier.pending == 0) fail("the barrier at %u gets more arrivals than it expects", offset);
  barrier.pending--;
  settle(barrier);
}
void barrier_expect(unsigned offset, int bytes) {
  barrier_at(offset, current->rank).bytes += bytes;
  barrier_arrive(offset, current->rank);
}

struct Wait { const Barrier *barrier; unsigned parity; };
static bool is_over(const void *subject) {
  const Wait &wait = *static_cast<const Wait *>(subject);
  return (wait.barrier->phase & 1) != wait.parity;
}
void barrier_wait(unsigned offset, int parity) {
  check_shared(offset, 8, false);
  const Wait wait = {&barrier_at(offset, current->rank), static_cast<unsigned>(parity)};
  wait_until("an mbarrier", is_over, &wait);
}

static unsigned swizzled(unsigned address, unsigned bytes) {  // bits 4.. are exchanged by bits 7..
  return address ^ (address >> 7 & (bytes / 16 - 1)) << 4;
}
void copy_box(unsigned to, const CUtensorMap &map, unsigned offset, int inner, int outer, unsigned mask) {
  const unsigned row = map.box[0] * 2, bytes = row * map.box[1];
  if (to % 128) fail("misaligned: a bulk tensor copy to %u of shared memory", to);
  if (reinterpret_cast<uintptr_t>(map.base) % 16 || map.step % 8) fail("misaligned: rows of a tensor map");
  if (row % 16 || map.box[0] > 256 || map.box[1] > 256 || (map.swizzle && row > map.swizzle)) fail("a box too large");
  if (to + bytes > shared_size) fail("out of bounds: a copy of %u bytes to %u of shared memory", bytes, to);
  check_global(map.base, static_cast<int>((map.step * (map.sizes[1] - 1) + map.sizes[0]) * 2), 16, false);
  for (unsigned rank = 0; rank < MOST_RANKS; rank++) {
    if (!(mask >> rank & 1)) continue;
    Barrier &barrier = barrier_at(offset, rank);
    if (!barrier.published) fail("the copy engine may not see the barrier at %u: a fence is missing", offset);
    auto next = barriers[rank].lower_bound(to);
    if (next != barriers[rank].end() && next->first < to + bytes) fail("a copy overwrites a barrier");
    for (unsigned piece = to / 16; piece < (to + bytes) / 16; piece++)
      if (readers[rank][piece]) fail("a copy overwrites bytes at %u that a product still reads", piece * 16);
    memset(memory_of(rank) + to, 0xFF, bytes);
    in_flight.push_back({map, rank, to, &barrier, inner, outer});
  }
}
static void land_box(const BoxCopy &copy) {
  const CUtensorMap &map = copy.map;
  const unsigned row = map.box[0] * 2;
  for (unsigned r = 0; r < map.box[1]; r++)
    for (unsigned c = 0; c < map.box[0]; c++) {
      const int64_t x = static_cast<int64_t>(copy.inner) + c, y = static_cast<int64_t>(copy.outer) + r;
      const bool inside = x >= 0 && y >= 0 && x < static_cast<int64_t>(map.sizes[0]) &&
                          y < static_cast<int64_t>(map.sizes[1]);
      const unsigned plain = copy.to + r * row + c * 2;
      element value = 0;
      if (inside) memcpy(&value, map.base + (y * map.step + x) * 2, 2);
      memcpy(memory_of(copy.rank) + (map.swizzle ? swizzled(plain, map.swizzle) : plain), &value, 2);
    }
  copy.barrier->bytes -= static_cast<long>(row) * map.box[1];
  settle(*copy.barrier);
}
bool run_engines(bool hurry) {
  std::vector<BoxCopy> left;
  bool landed = false;
  for (const BoxCopy &copy : in_flight) {
    if (ended(copy.rank)) report("a copy lands in a block that has ended");
    if (hurry || chance(3) == 0) land_box(copy), landed = true;
    else left.push_back(copy);
  }
  in_flight.swap(left);
  return landed;
}

// The address of an element of an operand, by its descriptor: "Shared Memory Matrix Layout" in the PTX ISA.
struct Layout {
  unsigned start, leading, stride, bytes;
  bool adjacent;  // neighbours along the width ("MN-major")

  Layout(descriptor d, bool adjacent) : adjacent(adjacent) {
    start = (d & 0x3FFF) << 4, leading = (d >> 16 & 0x3FFF) << 4, stride = (d >> 32 & 0x3FFF) << 4;
    const unsigned type = static_cast<unsigned>(d >> 62);
    if (type == 0) fail("a descriptor without a swizzle, which this model lacks");
    if (d >> 49 & 7) fail("a descriptor with a base offset, which this model lacks");
    bytes = 256 >> type;
  }
  unsigned at(unsigned width, unsigned depth) const {
    const unsigned span = bytes / 2;
    const unsigned plain = adjacent ? start + width / span * leading + depth / 8 * stride + depth % 8 * bytes +
                                          width % span * 2
                                    : start + width / 8 * stride + width % 8 * bytes + depth * 2;
    const unsigned physical = swizzled(plain, bytes);
    if (physical + 2 > shared_size) fail("out of bounds: a product reads at %u of shared memory", physical);
    return physical;
  }
};
template <typename Act> static void for_elements(const WarpProduct &p, unsigned warp, Act act) {
  const Layout a(p.a, p.rows_adjacent), b(p.b, p.columns_adjacent);
  for (unsigned depth = 0; depth < 16; depth++) {
    for (unsigned row = 0; row < 16; row++) act(true, row, depth, a.at(warp % 4 * 16 + row, depth));
    for (int column = 0; column < p.columns; column++) act(false, column, depth, b.at(column, depth));
  }
}
static void mark(const WarpProduct &p, unsigned warp, unsigned rank, int by) {
  for_elements(p, warp, [&](bool, unsigned, unsigned, unsigned at) { readers[rank][at / 16] += by; });
}
static void compute(const WarpProduct &p, unsigned warp, unsigned rank) {
  static float a[16][16], b[256][16];
  for_elements(p, warp, [&](bool of_a, unsigned index, unsigned depth, unsigned at) {
    element value;
    memcpy(&value, memory_of(rank) + at, 2);
    (of_a ? a[index] : b[index])[depth] = widened(value);
  });
  Sums &sums = warps[warp].sums[p.key];
  const unsigned count = p.columns / 2;
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < count; i++) {
      const float *row = a[lane / 4 + i / 2 % 2 * 8], *column = b[i / 4 * 8 + lane % 4 * 2 + i % 2];
      float sum = 0.0f;
      for (unsigned k = 0; k < 16; k++) sum += row[k] * column[k];
      sums.values[lane * count + i] += sum;
    }
}

static void issue(void **arguments, unsigned) {
  const unsigned index = current->index / 32, rank = current->rank;
  Warp &warp = warps[index];
  const Request &first = *static_cast<Request *>(arguments[0]);
  for (unsigned lane = 1; lane < 32; lane++) {
    const Request &other = *static_cast<Request *>(arguments[lane]);
    if (other.a != first.a || other.b != first.b) fail("lanes of a warp give wgmma different descriptors");
  }
  if (!warp.open) fail("wgmma without wgmma.fence before it");
  auto &log = issues[current->index / WARPGROUP];
  const std::pair<descriptor, descriptor> here(first.a, first.b);
  if (warp.issued == log.size()) log.push_back(here);
  else if (log[warp.issued] != here) fail("warps of a warpgroup give wgmma different descriptors");
  warp.issued++;
  Sums &sums = warp.sums[first.sums];
  const unsigned count = first.columns / 2;
  if (sums.pending++ == 0) {
    sums.values.resize(32 * count);
    for (unsigned lane = 0; lane < 32; lane++) {
      sums.registers[lane] = static_cast<Request *>(arguments[lane])->sums;
      memcpy(&sums.values[lane * count], sums.registers[lane], count * sizeof(float));
      memset(sums.registers[lane], 0xFF, count * sizeof(float));
    }
  }
  WarpProduct made = {first.sums, first.columns, first.rows_adjacent, first.columns_adjacent, chance(2) == 0, first.a,
                      first.b, warp.committed};
  if (made.late) mark(made, index, rank, 1);
  else compute(made, index, rank);
  warp.pending.push_back(made);
}
void product(float *sums, int columns, bool rows_adjacent, bool columns_adjacent, descriptor a, descriptor b) {
  Request request = {sums, columns, rows_adjacent, columns_adjacent, a, b};
  meet(warp_of(*current), "wgmma", &request, issue);
}
void products_begin() {
  meet(warp_of(*current), "wgmma.fence", nullptr, [](void **, unsigned) { warp_here().open = true; });
}
void products_commit() {
  meet(warp_of(*current), "wgmma.commit_group", nullptr, [](void **, unsigned) {
    warp_here().committed++;
    warp_here().open = false;
  });
}
static void finish_products(void **arguments, unsigned) {
  const unsigned index = current->index / 32, rank = current->rank, left = *static_cast<unsigned *>(arguments[0]);
  Warp &warp = warps[index];
  size_t done = 0;
  for (; done < warp.pending.size() && warp.pending[done].group + left < warp.committed; done++) {
    const WarpProduct &p = warp.pending[done];
    if (p.late) {
      mark(p, index, rank, -1);
      compute(p, index, rank);
    }
    auto place = warp.sums.find(p.key);
    Sums &sums = place->second;
    if (--sums.pending) continue;
    const unsigned count = p.columns / 2;
    for (unsigned lane = 0; lane < 32; lane++)
      memcpy(sums.registers[lane], &sums.values[lane * count], count * sizeof(float));
    warp.sums.erase(place);
  }
  warp.pending.erase(warp.pending.begin(), warp.pending.begin() + done);
}
void products_wait(int pending) {
  unsigned left = pending;
  meet(warp_of(*current), "wgmma.wait_group", &left, finish_products);
}
}  // namespace shim
