"""The CUDA compiler: images for GPUs that need not be present, their resources, and the cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from seqtune.errors import FormatError, UnavailableError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.cuda import compiler
from seqtune.tuner.backends.cuda.compiler import CubinCompiler
from seqtune.tuner.backends.cuda.resources import read_resources, read_spills
from seqtune.tuner.backends.image_cache import ImageCache
from tests.support.devices import described_gpu

Run = Callable[[str, tuple[str, ...]], tuple[bytes, str]]
KERNEL = r"""
extern "C" __global__ void __launch_bounds__(128) tile(const float *x, float *y, int n) {
  __shared__ float part[300];
  extern __shared__ float rest[];
  float held[64];
  for (int i = 0; i < 64; i++) held[i] = x[i * n + threadIdx.x];
  part[threadIdx.x] = x[0];
  for (int i = 0; i < n; i++) rest[threadIdx.x] += held[i * n & 63];
  __syncthreads();
  y[threadIdx.x] = part[n] + rest[n + 1];
}
extern "C" __global__ void plain(float *y) { y[threadIdx.x] = 3; }
"""


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    return ImageCache("cubin", tmp_path / "cubin")


def compiler_for(model: str, cache: ImageCache, run: Run = compiler.run_nvrtc) -> CubinCompiler:
    device = described_gpu("cuda", model)
    return CubinCompiler(device, cache, run)


@pytest.mark.parametrize(("model", "target"), [
    ("t4", "sm_75"), ("a100", "sm_80"), ("rtx-4090", "sm_89"), ("h200", "sm_90a"), ("b200", "sm_100"),
    ("rtx-5090", "sm_120")])
def test_a_kernel_compiles_for_every_generation_and_its_needs_are_read_from_the_image(
        model: str, target: str, cache: ImageCache) -> None:
    compiler = compiler_for(model, cache)
    assert compiler.target == target
    image = compiler.compile(KernelSource(KERNEL))
    assert set(image.resources) == {"tile", "plain"}
    tile, plain = image.resources["tile"], image.resources["plain"]
    assert tile.shared == 1200  # without the 1024 bytes that images from sm_90 on count
    assert plain.shared == plain.stack == plain.most_threads == 0
    assert tile.stack == 256  # the array that is read at an index known only at run time
    assert tile.spill_stores == 0
    assert (tile.most_threads, tile.parameters) == (128, 20)
    assert 8 <= plain.registers <= tile.registers <= 255


def test_the_first_error_of_the_compiler_is_reported_in_one_line(cache: ImageCache) -> None:
    with pytest.raises(BuildError, match=r"kernel\.cu\(1\): error: .*undefined") as caught:
        compiler_for("h200", cache).compile(KernelSource('extern "C" __global__ void f() { missing(); }'))
    assert "\n" not in str(caught.value)
    with pytest.raises(BuildError, match="unrecognized option"):
        compiler_for("h200", cache).compile(KernelSource(KERNEL, ("--no-such-option",)))
    with pytest.raises(BuildError, match="cuda_fp16"):
        compiler_for("h200", cache).compile(KernelSource("#include <cuda_fp16.h>"))


def test_an_image_is_compiled_once_unless_text_options_or_architecture_differ(
        cache: ImageCache) -> None:
    calls: list[tuple[str, ...]] = []

    def counting(text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        calls.append(options)
        return compiler.run_nvrtc(text, options)

    h200 = compiler_for("h200", cache, counting)
    first = h200.compile(KernelSource(KERNEL))
    assert h200.compile(KernelSource(KERNEL)) == first
    assert len(calls) == 1
    h200.compile(KernelSource(KERNEL + "\n"))
    h200.compile(KernelSource(KERNEL, ("-DX=1",)))
    compiler_for("a100", cache, counting).compile(KernelSource(KERNEL))
    assert len(calls) == 4


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"sha256": 3, "facts": []}\n\x7fELF', b"[" * 5000, None])
def test_a_damaged_entry_is_compiled_again(damage: bytes | None, cache: ImageCache) -> None:
    h200 = compiler_for("h200", cache)
    first = h200.compile(KernelSource(KERNEL))
    entry, = cache.folder.glob("*/*.cubin")
    entry.write_bytes(entry.read_bytes()[:-100] if damage is None else damage)
    assert h200.compile(KernelSource(KERNEL)) == first
    assert ImageCache("cubin", cache.folder).get("unknown") is None


def test_a_folder_that_cannot_be_written_costs_only_time(cache: ImageCache, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = compiler_for("h200", ImageCache("cubin", tmp_path / "file" / "cubin"))
    assert blocked.compile(KernelSource(KERNEL)) == blocked.compile(KernelSource(KERNEL))


def test_hostile_images_are_refused_in_one_line(cache: ImageCache) -> None:
    image = compiler_for("h200", cache).compile(KernelSource(KERNEL)).cubin
    for wrong in (b"", b"MZ", image[:40], image[:200], image[:16] + b"\xff" * 48 + image[64:], b"\x7fELF\x02" * 40):
        with pytest.raises(FormatError, match="compiled kernel"):
            read_resources(wrong, {})
    for position in range(0, len(image), 97):  # no damage may raise anything else
        damaged = image[:position] + b"\xff" * 8 + image[position + 8:]
        with suppress(FormatError):
            read_resources(damaged, {})
    assert read_spills("ptxas info : Function properties for f\n 8 bytes spill stores, 16 bytes spill loads") == {
        "f": (8, 16)}
