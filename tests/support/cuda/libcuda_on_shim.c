// A stand-in for NVIDIA's driver library that runs the kernels of one image on the host, with the shim. The environment
// names the shim's library (SHIM), the compiled kernel (SHIM_KERNEL), the blocks of a cluster (SHIM_CLUSTER), whether
// elements are bf16 (SHIM_BF16), and the bytes of each argument (SHIM_ARGUMENTS, as in "8 8 4").
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64
enum { OK = 0, INVALID = 1, NO_BINARY = 209 };
typedef struct { const unsigned char *base; uint64_t sizes[2], step; uint32_t box[2], swizzle; } Map;

static void *begins[MOST], *kernel;
static uint64_t sizes[MOST];
static int writable[MOST], events;
static const char *(*shim_run)(void *, void **, const unsigned *, const unsigned *, unsigned, unsigned, int, uint64_t,
                               void **, const uint64_t *, const int *, unsigned);

static int refuse(const char *why) {
  fprintf(stderr, "stand-in refuses: %s\n", why);
  return INVALID;
}
static int number(const char *name) { return getenv(name) ? atoi(getenv(name)) : 0; }
static int inside(uintptr_t at, size_t size) {
  for (int i = 0; i < MOST; i++)
    if (begins[i] && at >= (uintptr_t)begins[i] && at + size <= (uintptr_t)begins[i] + sizes[i]) return 1;
  return 0;
}

int cuInit(unsigned flags) { return OK; }
int cuGetErrorString(int code, const char **text) { *text = code == NO_BINARY ? "no binary" : "refused"; return OK; }
int cuDeviceGet(int *device, int index) { *device = index; return index ? refuse("a device") : OK; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "the shim"); return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 1024; return OK; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &events; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) {
  for (int i = 0; i < MOST; i++)
    if (begins[i]) return refuse("memory was not freed");
  return events ? refuse("events were not destroyed") : OK;
}
int cuCtxSetCurrent(void *context) { return OK; }
int cuCtxGetCurrent(void **context) { *context = 0; return OK; }
int cuCtxGetDevice(int *device) { return refuse("a device without a context"); }
int cuCtxSynchronize(void) { return OK; }
int cuStreamSynchronize(void *stream) { return OK; }
int cuModuleLoadData(void **module, const char *image) {
  if (memcmp(image, "\177ELF", 4)) return NO_BINARY;
  void *shim = dlopen(getenv("SHIM"), RTLD_NOW | RTLD_GLOBAL);
  kernel = dlopen(getenv("SHIM_KERNEL"), RTLD_NOW);
  if (!shim || !kernel) return refuse(dlerror());
  *(void **)&shim_run = dlsym(shim, "shim_run");
  *module = kernel;
  return OK;
}
int cuModuleLoad(void **module, const char *path) {
  char image[4] = "";
  FILE *file = fopen(path, "rb");
  if (!file || fread(image, 1, 4, file) != 4) return refuse(path);
  fclose(file);
  return cuModuleLoadData(module, image);
}
int cuModuleUnload(void *module) { return OK; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  char launcher[128];
  snprintf(launcher, sizeof launcher, "launch_%s", name);
  *function = dlsym(module, launcher);
  return *function ? OK : refuse(name);
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  return attribute != 8 || value > 227 << 10 ? refuse("an attribute") : OK;
}
int cuMemAlloc_v2(uintptr_t *at, size_t size) {
  for (int i = 0; i < MOST; i++)
    if (!begins[i]) {
      begins[i] = aligned_alloc(256, (size + 255) / 256 * 256);
      sizes[i] = size;
      writable[i] = 1;
      *at = (uintptr_t)begins[i];
      return OK;
    }
  return refuse("so many buffers");
}
int cuMemFree_v2(uintptr_t at) {
  for (int i = 0; i < MOST; i++)
    if (begins[i] && (uintptr_t)begins[i] == at) {
      free(begins[i]);
      begins[i] = 0;
      return OK;
    }
  return refuse("memory that was not allocated");
}
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t size) {
  if (!inside(to, size)) return refuse("a copy outside a buffer");
  memcpy((void *)to, from, size);
  return OK;
}
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t size) {
  if (!inside(from, size)) return refuse("a copy outside a buffer");
  memcpy(to, (void *)from, size);
  return OK;
}
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t size, void *stream) {
  return cuMemcpyHtoD_v2(to, from, size);
}
int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t size, void *stream) { return cuMemcpyDtoH_v2(to, from, size); }
int cuMemsetD8Async(uintptr_t at, unsigned char byte, size_t size, void *stream) {
  if (!inside(at, size)) return refuse("a fill outside a buffer");
  memset((void *)at, byte, size);
  return OK;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz}, count = 0;
  void *found[MOST], *values[MOST];
  uint64_t bytes[MOST];
  char *packed = extra ? extra[1] : 0;
  size_t offset = 0;
  if (packed) {
    char *text = getenv("SHIM_ARGUMENTS");
    for (int i = 0; *text; i++) {
      size_t size = strtoul(text, &text, 10);
      offset = (offset + size - 1) / size * size;
      values[i] = packed + offset;
      offset += size;
    }
    if (offset != *(size_t *)extra[3]) return refuse("arguments of another size");
    parameters = values;
  }
  for (int i = 0; i < MOST; i++)
    if (begins[i]) {
      found[count] = begins[i];
      bytes[count++] = sizes[i];
    }
  const char *said = shim_run(function, parameters, grid, block, shared, number("SHIM_CLUSTER"), number("SHIM_BF16"), 1,
                              found, bytes, writable, count);
  return *said ? refuse(said) : OK;
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = &kernel; return OK; }
int cuEventCreate(void **event, unsigned flags) { *event = &events; events++; return OK; }
int cuEventRecord(void *event, void *stream) { return OK; }
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) { *milliseconds = 0.5f; return OK; }
int cuEventDestroy_v2(void *event) { events--; return OK; }
int cuTensorMapEncodeTiled(Map *map, int type, unsigned rank, uintptr_t at, const uint64_t *axes, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill) {
  if ((uintptr_t)map % 64 || at % 16 || rank != 2 || type == 7 || steps[0] != 1 || steps[1] != 1 || strides[0] % 16)
    return refuse("a tensor map");
  if (!inside(at, axes[1] * strides[0])) return refuse("a tensor map outside a buffer");
  *map = (Map){(const unsigned char *)at, {axes[0], axes[1]}, strides[0] / 2, {box[0], box[1]}, swizzle ? 16u << swizzle : 0};
  return OK;
}
