// A stand-in for NVIDIA's driver library: memory is the host's, kernels are counted and not executed, and wrong calls
// are refused: copies outside an allocation, unknown handles, launches beyond the limits of an H200.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, BAD_IMAGE = 200, BAD_HANDLE = 400, NOT_FOUND = 500 };
enum { MEMSET, COPY, LAUNCH, RECORD };

typedef struct { char *begin; size_t size; } Block;
typedef struct { int kind; char *at; const char *from; int byte; size_t size; double *event; } Step;
typedef struct { int count; Step steps[256]; } Graph;
typedef struct { char name[64]; int dynamic_shared; } Function;

static Block blocks[MOST];
static Graph *capturing;
static int streams, contexts, modules, graphs, events, launches, refused, fills;
static double now;  // milliseconds
static char stream_of_all, context_of_all;

static int refuse(int code, const char *why) {
  refused++;
  fprintf(stderr, "stand-in refuses: %s\n", why);
  return code;
}

static int inside(uintptr_t at, size_t size) {
  for (int i = 0; i < MOST; i++)
    if (blocks[i].begin && at >= (uintptr_t)blocks[i].begin &&
        at + size <= (uintptr_t)blocks[i].begin + blocks[i].size)
      return 1;
  return 0;
}

static int put(Step step) {
  if (capturing) {
    if (capturing->count == 256) return refuse(OUT_OF_MEMORY, "a graph of so many steps");
    capturing->steps[capturing->count++] = step;
    return OK;
  }
  if (step.kind == MEMSET) { memset(step.at, step.byte, step.size); fills++; now += 0.05; }
  if (step.kind == COPY) { memcpy(step.at, step.from, step.size); now += 0.02; }
  if (step.kind == LAUNCH) { launches++; now += 0.005; }
  if (step.kind == RECORD) *step.event = now;
  return OK;
}

void stand_in_counts(int *out) {
  int live = 0;
  for (int i = 0; i < MOST; i++) live += blocks[i].begin != 0;
  int counts[] = {live, streams, contexts, modules, graphs, events, launches, refused, fills};
  memcpy(out, counts, sizeof counts);
}

int cuInit(unsigned flags) { return OK; }
int cuGetExportTable(const void **table, const void *id) { *table = 0; return NOT_FOUND; }  // NVRTC asks, if it is there
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { *count = 1; return OK; }
int cuDeviceGet(int *device, int number) { *device = number; return number ? refuse(INVALID, "device number") : OK; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "NVIDIA H200"); return OK; }
int cuDeviceComputeCapability(int *major, int *minor, int device) { *major = 9; *minor = 0; return OK; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = (size_t)1 << 37; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 1: *value = 1024; break;          // threads of a block
    case 10: *value = 32; break;           // warp size
    case 13: *value = 1980000; break;      // clock, kHz
    case 16: *value = 132; break;          // multiprocessors
    case 38: *value = 60 << 20; break;     // L2
    case 39: *value = 2048; break;         // threads of a multiprocessor
    case 81: *value = 228 << 10; break;    // shared memory of a multiprocessor
    case 82: *value = 65536; break;        // registers of a multiprocessor
    case 97: *value = 227 << 10; break;    // shared memory of a block, opted in
    case 106: *value = 32; break;          // blocks of a multiprocessor
    case 111: *value = 1024; break;        // reserved shared memory of a block
    default: *value = 1;
  }
  return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &context_of_all; contexts++; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { contexts--; return OK; }
int cuCtxPushCurrent_v2(void *context) { return context == &context_of_all ? OK : refuse(BAD_HANDLE, "context"); }
int cuCtxPopCurrent_v2(void **context) { if (context) *context = &context_of_all; return OK; }
int cuCtxGetDevice(int *device) { *device = 0; return OK; }
int cuCtxSynchronize(void) { return capturing ? refuse(900, "synchronising while capturing") : OK; }
int cuCtxGetApiVersion(void *context, unsigned *version) { *version = 13000; return OK; }
int cuCtxAttach(void **context, unsigned flags) { *context = &context_of_all; contexts++; return OK; }
int cuCtxDetach(void *context) { contexts--; return OK; }
int cuGetErrorString(int code, const char **text) {
  *text = code == INVALID ? "invalid argument" : code == BAD_HANDLE ? "invalid resource handle" : "refused";
  return OK;
}

int cuMemAlloc_v2(uintptr_t *at, size_t size) {
  for (int i = 0; size && i < MOST; i++)
    if (!blocks[i].begin) {
      if (!(blocks[i].begin = aligned_alloc(256, (size + 255) / 256 * 256))) return OUT_OF_MEMORY;
      blocks[i].size = size;
      *at = (uintptr_t)blocks[i].begin;
      return OK;
    }
  return refuse(INVALID, "an allocation of nothing, or too many");
}
int cuMemFree_v2(uintptr_t at) {
  for (int i = 0; i < MOST; i++)
    if (blocks[i].begin && (uintptr_t)blocks[i].begin == at) {
      free(blocks[i].begin);
      blocks[i].begin = 0;
      return OK;
    }
  return refuse(INVALID, "freeing memory that was not allocated");
}
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t size) {
  if (!inside(to, size)) return refuse(INVALID, "a copy outside an allocation");
  memcpy((void *)to, from, size);
  return OK;
}
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t size) {
  if (!inside(from, size)) return refuse(INVALID, "a copy outside an allocation");
  memcpy(to, (void *)from, size);
  return OK;
}
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, void *stream) {
  if (stream != &stream_of_all) return refuse(BAD_HANDLE, "stream");
  if (!inside(to, size) || !inside(from, size)) return refuse(INVALID, "a copy outside an allocation");
  return put((Step){.kind = COPY, .at = (char *)to, .from = (const char *)from, .size = size});
}
int cuMemsetD8Async(uintptr_t at, unsigned char byte, size_t size, void *stream) {
  if (stream != &stream_of_all) return refuse(BAD_HANDLE, "stream");
  if (!inside(at, size)) return refuse(INVALID, "a fill outside an allocation");
  return put((Step){.kind = MEMSET, .at = (char *)at, .byte = byte, .size = size});
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, void *options, void *values) {
  if (memcmp(image, "\177ELF", 4)) return refuse(BAD_IMAGE, "an image that is no cubin");
  *module = malloc(1);
  modules++;
  return OK;
}
int cuModuleLoadData(void **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, 0, 0); }
int cuModuleUnload(void *module) { free(module); modules--; return OK; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  if (!strcmp(name, "missing")) return refuse(NOT_FOUND, "an entry that is not there");
  Function *made = calloc(1, sizeof *made);
  snprintf(made->name, sizeof made->name, "%s", name);
  *function = made;
  return OK;
}
int cuFuncSetAttribute(Function *function, int attribute, int value) {
  if (attribute != 8 || value > 227 << 10) return refuse(INVALID, "an attribute of a function");
  function->dynamic_shared = value;
  return OK;
}
int cuFuncSetBlockShape(Function *function, int x, int y, int z) { return OK; }  // pycuda calls it before a launch
int cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  if (stream != &stream_of_all) return refuse(BAD_HANDLE, "stream");
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535) return refuse(INVALID, "a grid");
  if (!bx || !by || !bz || bx * by * bz > 1024) return refuse(INVALID, "a block of too many threads");
  if (shared > 48 << 10 && (int)shared > function->dynamic_shared)
    return refuse(INVALID, "more shared memory than was asked for");
  if (!parameters == !extra) return refuse(INVALID, "parameters given twice or not at all");
  if (extra && (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])) return refuse(INVALID, "a buffer");
  return put((Step){.kind = LAUNCH});
}

int cuStreamCreate(void **stream, unsigned flags) { *stream = &stream_of_all; streams++; return OK; }
int cuStreamDestroy_v2(void *stream) { streams--; return OK; }
int cuStreamSynchronize(void *stream) {
  if (stream != &stream_of_all) return refuse(BAD_HANDLE, "stream");
  return capturing ? refuse(900, "synchronising while capturing") : OK;
}
int cuStreamBeginCapture_v2(void *stream, int mode) {
  if (capturing || stream != &stream_of_all || mode != 2) return refuse(INVALID, "a capture");  // 2: relaxed
  capturing = calloc(1, sizeof *capturing);
  return OK;
}
int cuStreamEndCapture(void *stream, void **graph) { *graph = capturing; capturing = 0; return OK; }
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
  if (!graph) return refuse(INVALID, "no graph");
  *executable = malloc(sizeof(Graph));
  memcpy(*executable, graph, sizeof(Graph));
  graphs++;
  return OK;
}
int cuGraphDestroy(void *graph) { free(graph); return OK; }
int cuGraphExecDestroy(void *graph) { free(graph); graphs--; return OK; }
int cuGraphLaunch(Graph *graph, void *stream) {
  if (stream != &stream_of_all) return refuse(BAD_HANDLE, "stream");
  for (int i = 0; i < graph->count; i++) put(graph->steps[i]);
  return OK;
}
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(double)); events++; return OK; }
int cuEventDestroy_v2(void *event) { free(event); events--; return OK; }
int cuEventRecordWithFlags(void *event, void *stream, unsigned flags) {
  if (!capturing || flags != 1) return refuse(INVALID, "an external event outside a capture");
  return put((Step){.kind = RECORD, .event = event});
}
int cuEventElapsedTime(float *passed, double *begin, double *end) { *passed = *end - *begin; return OK; }
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill) {
  if ((uintptr_t)map % 64 || (uintptr_t)at % 16 || rank < 1 || rank > 5) return refuse(INVALID, "a tensor map");
  size_t element = type == 7 ? 4 : 2;
  for (unsigned i = 0; i < rank; i++)
    if (!sizes[i] || !box[i] || box[i] > 256 || steps[i] != 1 || (i && strides[i - 1] % 16))
      return refuse(INVALID, "an axis of a tensor map");
  if (box[0] * element % 16 || (swizzle && box[0] * element > (size_t)16 << swizzle))
    return refuse(INVALID, "the box of a tensor map");
  size_t reach = rank == 1 ? sizes[0] * element : sizes[rank - 1] * strides[rank - 2];
  if (!inside((uintptr_t)at, reach)) return refuse(INVALID, "a tensor map outside an allocation");
  memset(map, 1, 128);
  return OK;
}
