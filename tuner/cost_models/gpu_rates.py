"""GpuRates: the rates and latencies of a GPU by which the analytic model turns work into seconds.

Peaks come from the facts of the Device (data sheets). What no data sheet says is a constant here, with its source:
- shared memory: 128 bytes a clock and unit, 64 on Turing (NVIDIA's GA102 white paper, "Larger and Faster Unified L1
  Cache and Shared Memory", compares the two);
- second-level cache: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018) and
  "Dissecting the NVidia Turing T4 GPU via Microbenchmarking" (2019) measure 2155 and 1270 GB/s, 20 bytes a clock and
  unit; A100 and H100 reach more;
- mma.sync on Hopper: 62.9 % of the peak, which only wgmma reaches (Luo et al., "Benchmarking and Dissecting the Nvidia
  Hopper GPU Architecture", 2024);
- latencies in clocks: the same three articles.
"""

from __future__ import annotations

from dataclasses import dataclass

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device

# Facts that the model needs; a GPU of the table may lack some of them.
NEEDED = ("compute_capability", "warp_size", "unit_threads", "unit_blocks", "unit_registers", "unit_shared",
          "reserved_shared", "clock_mhz", "tensor_gflops")
MEMORY_SHARE = 0.85  # of the peak memory rate that kernels reach
MMA_SHARE = {90: 0.63, 100: 0.31, 103: 0.31}  # of the tensor peak that mma.sync reaches, by capability; elsewhere 1
SHARED_BYTES = {75: 64.0}  # a clock and unit, by compute capability; elsewhere 128
L2_BYTES = {80: 30.0, 90: 30.0, 100: 30.0, 103: 30.0}  # a clock and unit
L2_BYTES_ELSEWHERE = 22.0


@dataclass(frozen=True, slots=True)
class GpuRates:
    """Rates of one GPU: a clock and unit where nothing else is said."""

    units: int
    hertz: float
    warp: int  # threads
    unit_warps: float  # most resident warps
    unit_registers: float  # of 32 bits
    lanes: float  # fp32 multiply-adds
    tensor_flop: float  # dense fp16 operations, with wgmma where the GPU has it
    mma_flop: float  # the same with mma.sync
    shared_bytes: float
    l2_bytes: float  # a clock and unit when all units read
    l2_capacity: float  # bytes; of AMD's last-level cache where there is one
    memory_bytes: float  # a second, all units together
    global_latency: float = 500.0  # clocks; second-level cache 200-270, memory 450-800
    stage_latency: float = 180.0  # clocks of a barrier, address arithmetic and the turnaround of a stage
    fragment_latency: float = 30.0  # clocks of a load from shared memory
    launch_seconds: float = 3e-6

    @classmethod
    def of(cls, device: Device) -> GpuRates:
        """The rates of a device with the extra facts of a GPU (`accelerators.limit_facts`).

        Raises DeviceError if it lacks one.
        """
        if (missing := missing_fact(device)) is not None:
            raise DeviceError(f"the analytic model needs {missing} of {device.name}, which is not known")
        facts = {name: float(value) for name, value in device.extra if not isinstance(value, str)}
        capability, hertz = int(facts["compute_capability"]), facts["clock_mhz"] * 1e6
        clocks = device.compute_units * hertz
        tensor = facts["tensor_gflops"] * 1e9 / clocks
        return cls(
            units=device.compute_units, hertz=hertz, warp=int(facts["warp_size"]),
            unit_warps=facts["unit_threads"] / facts["warp_size"], unit_registers=facts["unit_registers"],
            lanes=device.peak_gflops * 1e9 / 2 / clocks, tensor_flop=tensor,
            mma_flop=tensor * MMA_SHARE.get(capability, 1.0), shared_bytes=SHARED_BYTES.get(capability, 128.0),
            l2_bytes=L2_BYTES.get(capability, L2_BYTES_ELSEWHERE),
            l2_capacity=float(max(device.l2_bytes, device.l3_bytes)),
            memory_bytes=device.bandwidth_gbs * 1e9 * MEMORY_SHARE)


def missing_fact(device: Device) -> str | None:
    """The first fact that the analytic model needs and the device lacks; None if it has all."""
    known = dict(device.extra)
    return next((name for name in NEEDED if name not in known), None)
