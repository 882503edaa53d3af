"""Probes: the problems on which a calibration measures a device.

There are three of every kind (`kinds.KINDS`), a problem of each kind first, so that a short calibration sees all kinds.
They belong to the further training problems (`collected.further_training`), at most 6e8 FLOP each: a slow configuration
takes a few milliseconds. None is near a problem of the locked test set.
"""

from __future__ import annotations

from itertools import cycle

from ..devices.accelerators import BACKENDS
from ..problem import Problem
from .parse import parse_problem

_PROBES = """
conv2d c=256 h=20 w=20 k=256 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d c=2 h=224 w=224 k=64 r=5 s=5 pad_h=2 pad_w=2
conv2d c=384 h=75 w=75 k=384 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 groups=384 bias=yes activation=relu
conv2d c=64 h=48 w=48 k=64 r=3 s=3 pad_h=1 pad_w=1 groups=8 layout=NHWC bias=yes
conv2d n=2 c=168 h=8 w=8 k=96 r=3 s=3 pad_h=12 pad_w=12 dilation_h=12 dilation_w=12 bias=yes activation=relu
conv2d c=96 h=27 w=27 k=112 r=5 s=1 pad_h=2 layout=NHWC bias=yes activation=relu
conv2d c=24 h=150 w=147 k=384 r=1 s=1 stride_h=2 stride_w=2
conv2d n=2 c=304 h=75 w=75 k=3 r=1 s=1 bias=yes
conv2d c=24 h=12 w=12 k=1000 r=7 s=7 pad_h=3 pad_w=3
gemm m=1 n=4096 k=640 trans_b=yes bias=yes activation=relu
gemm m=197 n=81 k=112 bias=yes
gemm m=10 n=1536 k=288 trans_b=yes
gemm m=214 n=1200 k=768 bias=yes activation=relu
conv2d c=256 h=18 w=18 k=320 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d c=4 h=224 w=224 k=24 r=3 s=3 pad_h=1 pad_w=1
conv2d c=752 h=12 w=12 k=752 r=5 s=5 pad_h=2 pad_w=2 groups=752 layout=NHWC bias=yes activation=relu
conv2d n=2 c=384 h=48 w=48 k=384 r=1 s=1 groups=16 bias=yes
conv2d c=18 h=64 w=60 k=263 r=3 s=3 pad_h=2 pad_w=2 dilation_h=2 dilation_w=2 layout=NHWC bias=yes activation=relu
conv2d c=136 h=27 w=27 k=160 r=5 s=1 pad_h=2 layout=NHWC
conv2d c=40 h=184 w=184 k=40 r=1 s=1 stride_h=2 stride_w=2
conv2d c=16 h=112 w=95 k=144 r=1 s=1 layout=NHWC bias=yes
conv2d c=232 h=6 w=6 k=16 r=5 s=5 pad_h=2 pad_w=2
gemm m=1 n=883 k=4353
gemm m=32 n=353 k=1868 bias=yes activation=relu
gemm m=2 n=2304 k=160 trans_a=yes
gemm m=281 n=136 k=2048 bias=yes activation=relu
conv2d c=320 h=16 w=16 k=320 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d c=1 h=224 w=224 k=12 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 layout=NHWC
conv2d n=4 c=960 h=17 w=17 k=960 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 groups=960 bias=yes activation=relu
conv2d c=768 h=27 w=27 k=768 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 groups=16
conv2d c=64 h=128 w=128 k=6 r=3 s=3 pad_h=2 pad_w=2 dilation_h=2 dilation_w=2 bias=yes
conv2d c=96 h=31 w=31 k=18 r=9 s=1 pad_h=4 layout=NHWC bias=yes
conv2d c=96 h=55 w=55 k=232 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 bias=yes
conv2d c=192 h=75 w=75 k=232 r=1 s=1 bias=yes activation=relu
conv2d c=24 h=24 w=24 k=249 r=7 s=7 pad_h=3 pad_w=3 layout=NHWC
gemm m=1 n=2304 k=672 trans_b=yes
gemm m=196 n=2304 k=162
gemm m=256 n=344 k=96
gemm m=196 n=184 k=2048 trans_b=yes bias=yes activation=relu
"""


def probes(backend: str = "llvm") -> list[Problem]:
    """The probes of a device of a backend: one of each kind, then the second of each kind, and so on.

    On GPUs they are in half precision, fp16 and bf16 in turn: that is what one has them for.
    """
    types = ("fp16", "bf16") if backend in BACKENDS else ("fp32",)
    return [parse_problem(f"{line} dtype={dtype}")
            for line, dtype in zip(_PROBES.strip().splitlines(), cycle(types), strict=False)]
