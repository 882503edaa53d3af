"""LayerSet: the distinct convolutions of a network, and how they are timed: alone or with bias and ReLU6."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from seqtune.kernels.problem import Problem


@dataclass(frozen=True)
class LayerSet:
    """The convolutions of a named problem set, fp32, one image, in NHWC memory."""

    name: str  # of the problem set
    title: str
    fused: bool = False  # each with its bias and, but for the projections, with ReLU6, as the network has them
    nchw: bool = True  # whether our kernels in NCHW memory are timed, too
    caveats: tuple[str, ...] = ()

    def layers(self, numbers: Collection[int] = ()) -> dict[str, Problem]:
        """The problems by label, C1, C2, ..., in the order of execution; without numbers, all.

        Where ReLU6 follows, their activation is `relu`. Raises MisuseError for numbers that are not there.
        """
        from seqtune.kernels.problem_sets.networks import network

        known = network(self.name)
        if not set(numbers) <= set(range(1, len(known) + 1)):
            raise MisuseError(f"the layers of {self.title} are numbers from 1 to {len(known)}")
        return {f"C{number}": _in_network(problem, self.fused) for number, problem in enumerate(known, 1)
                if number in (numbers or [number])}

    def has_relu6(self, problem: Problem) -> bool:
        """Whether ReLU6 follows a layer of this set."""
        return self.fused and problem["activation"] == "relu"


def _in_network(problem: Problem, fused: bool) -> Problem:
    """The layer in NHWC; a projection is a 1x1 convolution with fewer output than input channels."""
    from seqtune.kernels.problem import Problem

    features = {**dict(problem.features), "layout": "NHWC"}
    if fused:
        projection = problem.size("r") == 1 and problem.size("k") < problem.size("c")
        features |= {"bias": "yes", "activation": "none" if projection else "relu"}
    return Problem.make("conv2d", **features)


def described(problem: Problem) -> str:
    """Filter, stride, channels and size of the input of a convolution, such as `3×3 / 2, 64 → 128, 56 × 56`."""
    sizes = {name: problem.size(name) for name in ("r", "s", "stride_h", "c", "k", "h", "w", "groups")}
    stride = f" / {sizes['stride_h']}" if sizes["stride_h"] > 1 else ""
    channels = f"depthwise {sizes['c']}" if 1 < sizes["groups"] == sizes["c"] else f"{sizes['c']} → {sizes['k']}"
    return f"{sizes['r']}×{sizes['s']}{stride}, {channels}, {sizes['h']} × {sizes['w']}"


LAYER_SETS: Mapping[str, LayerSet] = {layer_set.name: layer_set for layer_set in (
    LayerSet("resnet18", "ResNet-18", caveats=(
        "Most of the speedup on dense 3x3 layers comes from Winograd's algorithm, which does less arithmetic. The "
        "direct family shows the speedup with equal arithmetic.",)),
    LayerSet("mobilenet_v2", "MobileNet-V2", fused=True, nchw=False, caveats=(
        "Bias and ReLU6 belong to every layer on all sides, but for the projections (1x1, fewer output channels), "
        "which have no activation. The sums of the residual connections are left out on all sides.",)))}
