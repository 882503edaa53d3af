"""ProblemSet: a list of layers with the methods that compute them, and what is compared with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqtune.kernels.problem import Problem

# label -> m, n, k, whether B is stored as (n, k)
PRODUCTS = {
    "BERT-base attention": (128, 768, 768, True), "BERT-base up": (128, 3072, 768, True),
    "BERT-base down": (128, 768, 3072, True), "BERT-base, 384 words": (384, 768, 768, True),
    "BERT-base, 16 words": (16, 3072, 768, True), "BERT-large attention": (128, 1024, 1024, True),
    "BERT-large up": (64, 4096, 1024, True), "GPT-2 query, key, value": (512, 2304, 768, False),
    "GPT-2 up": (32, 3072, 768, False), "GPT-2 down": (32, 768, 3072, False), "LSTM 512": (64, 2048, 512, True),
    "LSTM 256": (8, 1024, 256, True), "ResNet-18 classes": (1, 1000, 512, True),
    "ResNet-50 classes, batch 16": (16, 1000, 2048, True), "ResNet-50 1x1, 56 x 56": (3136, 256, 64, True),
    "ResNet-50 1x1, 14 x 14": (196, 256, 1024, True),
}
LINEAR = {  # label -> n, k
    "GPT-2 attention": (768, 768), "GPT-2 query, key, value": (2304, 768), "GPT-2 up": (3072, 768),
    "GPT-2 down": (768, 3072), "GPT-2 vocabulary": (50257, 768), "Llama attention": (4096, 4096),
    "Llama up": (11008, 4096), "Llama down": (4096, 11008),
}
ROWS = (1, 8, 64, 2048)  # rows of linear layers: from one token to a long text
BUILT = ("C1", "C2", "C3", "C6", "C9", "C12", "BERT-base attention", "BERT-base, 16 words", "LSTM 256",
         "ResNet-50 1x1, 14 x 14")
INT8 = ((128, 768, 768), (128, 3072, 768), (128, 768, 3072), (512, 2304, 768), (16, 1000, 2048), (64, 4096, 1024))
RUNTIMES = (
    "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=192 h=28 w=28 k=768 r=1 s=1", "gemm m=300 n=300 k=300",
    "gemm m=197 n=768 k=768", "conv2d c=96 h=56 w=56 k=96 r=3 s=3 pad=1 groups=96")

FEW_ROWS = 16  # up to so many rows, reading B takes most of a product's time
COLD_BYTES = 1 << 28  # all copies of B: more than last-level caches hold

OPENVINO = "openvino"  # the peer whose node is timed apart
NODE, STEP = "openvino_node", "step"  # the methods of OpenVINO's node, and of our kernel that is timed beside it
READ, LIMIT = "read", "machine"  # reading B once; the least time that the machine allows
NCHW = "nchw "  # begins the method's name of our kernel in NCHW memory
IN_C, IN_PYTHON = "C ", "Python "  # begin the methods' names of a built kernel: its function in C, its Python call
PROPOSAL = "proposal "  # begins the method's name of a predicted configuration
SEARCHED = "Every kernel was chosen by a search on this machine, not by a prediction."
BESIDE_STEP = (
    "`OpenVINO's node` is the time that OpenVINO's profile shows for the layer's node, in a model of the layer alone: "
    "it leaves out OpenVINO's call and its changes of layout. It stands beside our fastest kernel as a step of a "
    "program, without the call from Python and the allocation of the result. Of both, the least of twelve samples "
    "counts; OpenVINO counts whole microseconds, rounded down, and its profile adds to the time of a node.")


def fastest(seconds: Mapping[str, float], *patterns: str) -> str | None:
    """The fastest of the methods whose names fit a pattern such as `llvm.*`, or None if none of them was timed."""
    known = [method for method in seconds if any(fnmatchcase(method, pattern) for pattern in patterns)]
    return min(known, key=seconds.__getitem__, default=None)


@dataclass(frozen=True)
class Comparison:
    """The time of the fastest peer divided by that of our fastest method; both are given by patterns."""

    title: str
    peers: Sequence[str]
    ours: str

    def ratio(self, seconds: Mapping[str, float]) -> float | None:
        """The ratio of a layer, or None if one side was not timed; above 1, ours is faster."""
        ours, peer = fastest(seconds, self.ours), fastest(seconds, *self.peers)
        return None if ours is None or peer is None else seconds[peer] / seconds[ours]


@dataclass(frozen=True)
class ProblemSet:
    """The problems of a name, who computes them, and the comparisons; the first comparison's `ours` is our answer."""

    name: str
    title: str
    make: Callable[[], Mapping[str, Problem]]
    peers: Sequence[str]  # names in `peers.PEERS`
    comparisons: Sequence[Comparison]
    backend: str = "llvm"
    runtimes: bool = False  # compares the OpenCL runtimes of this machine
    nchw: bool = False  # our kernels in NCHW memory are timed, too
    built: bool = False  # our kernels are timed as `seqtune build` gives them
    relu6: bool = False  # ReLU6 replaces ReLU on all sides
    proposals: int = 0  # predicted configurations that are timed; 0: the best of each family that a search found
    reading: Sequence[str] = (SEARCHED,)  # how to read the table

    def answer(self, seconds: Mapping[str, float]) -> str:
        """The method of our fastest kernel."""
        answer = fastest(seconds, self.comparisons[0].ours)
        assert answer is not None
        return answer


def copies_of(problem: Problem) -> int:
    """The number of copies of B that the calls of a linear layer take in turns: in a network, no cache holds B."""
    m, n, k = (problem.size(name) for name in "mnk")
    return max(2, -(-COLD_BYTES // (4 * n * k))) if m <= FEW_ROWS else 1


def described(problem: Problem) -> str:
    """The sizes: `128 × 768 × 768` of a product, `3×3 / 2, 64 → 128, 56 × 56` of a convolution."""
    if problem.type == "gemm":
        return " × ".join(str(problem.size(name)) for name in "mnk")
    sizes = {name: problem.size(name) for name in ("r", "s", "stride_h", "c", "k", "h", "w", "groups")}
    stride = f" / {sizes['stride_h']}" if sizes["stride_h"] > 1 else ""
    channels = f"depthwise {sizes['c']}" if 1 < sizes["groups"] == sizes["c"] else f"{sizes['c']} → {sizes['k']}"
    return f"{sizes['r']}×{sizes['s']}{stride}, {channels}, {sizes['h']} × {sizes['w']}"


def window_of(problem: Problem) -> tuple[list[int], list[int], list[int], int]:
    """The stride, padding and dilation of a convolution, each (height, width), and its groups."""
    stride, padding, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                 for name in ("stride", "pad", "dilation"))
    return stride, padding, dilation, problem.size("groups")


def _convolutions(name: str, fused: bool = False) -> dict[str, Problem]:
    """The distinct convolutions of a network in NHWC: C1, C2, ... in the order of execution.

    With `fused`, each has its bias and all but the projections (1x1, fewer output channels) ReLU.
    """
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.problem_sets.networks import network

    layers = {}
    for number, problem in enumerate(network(name), 1):
        features = {**dict(problem.features), "layout": "NHWC"}
        if fused:
            projection = problem.size("r") == 1 and problem.size("k") < problem.size("c")
            features |= {"bias": "yes", "activation": "none" if projection else "relu"}
        layers[f"C{number}"] = Problem.make("conv2d", **features)
    return layers


def _products() -> dict[str, Problem]:
    from seqtune.kernels.problem import Problem

    return {label: Problem.make("gemm", m=m, n=n, k=k, trans_b="yes" if by_column else "no")
            for label, (m, n, k, by_column) in PRODUCTS.items()}


def _linear() -> dict[str, Problem]:
    from seqtune.kernels.problem import Problem

    return {f"{label}, {m} row{'s' * (m > 1)}": Problem.make("gemm", m=m, n=n, k=k, trans_b="yes")
            for m in ROWS for label, (n, k) in LINEAR.items()}


def _built() -> dict[str, Problem]:
    convolutions, products = _convolutions("resnet18"), _products()
    return {label: (convolutions | products)[label] for label in BUILT}


def _int8() -> dict[str, Problem]:
    from seqtune.kernels.problem import Problem

    return {f"{m}x{n}x{k}": Problem.make("gemm", m=m, n=n, k=k, dtype="int8") for m, n, k in INT8}


def _runtimes() -> dict[str, Problem]:
    from seqtune.kernels.problem_sets.parse import parse_problem

    return {text: parse_problem(text) for text in RUNTIMES}


ONEDNN = ("onednn", "conv2d_channels_last")  # its operation on packed weights, and F.conv2d on channels_last input
PACKED = ("onednn_packed", "mkl_packed")
ONNX = ("onnx_product", "onnx_convolution")
BEST_ONEDNN = Comparison("best oneDNN", ONEDNN, "llvm.*")
DIRECT = Comparison("best oneDNN, by our direct family", ONEDNN, "llvm.direct")
BESIDE_OPENVINO = Comparison("OpenVINO's node, by our step", (NODE,), STEP)

PROBLEM_SETS: Mapping[str, ProblemSet] = {problem_set.name: problem_set for problem_set in (
    ProblemSet(
        "resnet18", "Convolutions of ResNet-18", lambda: _convolutions("resnet18"),
        (*ONEDNN, "conv2d_nchw", OPENVINO),
        (BEST_ONEDNN, DIRECT, Comparison("F.conv2d in NCHW, by ours in NCHW", ("conv2d_nchw",), f"{NCHW}*"),
         BESIDE_OPENVINO), nchw=True,
        reading=("Batch 1, fp32. `best oneDNN` is the faster of F.conv2d on channels_last input and of oneDNN's own "
                 "operation on packed weights. All sides pack the filters before the call; padding and the allocation "
                 "of the result are timed on both sides.",
                 "Most of the speedup on dense 3x3 layers comes from Winograd's algorithm, which does less arithmetic. "
                 "The direct family shows the speedup with equal arithmetic.", BESIDE_STEP, SEARCHED)),
    ProblemSet(
        "mobilenet_v2", "Convolutions of MobileNet-V2", lambda: _convolutions("mobilenet_v2", fused=True),
        (*ONEDNN, OPENVINO), (BEST_ONEDNN, DIRECT, BESIDE_OPENVINO), relu6=True,
        reading=("Batch 1, fp32. Bias and ReLU6 belong to every layer on all sides, but for the projections (1x1, "
                 "fewer output channels), which have no activation. The sums of the residual connections are left out "
                 "on all sides.", SEARCHED)),
    ProblemSet(
        "products", "Matrix products", _products, ("mm", *PACKED, OPENVINO),
        (Comparison("packed weights", PACKED, "llvm.*"), Comparison("torch.mm", ("mm",), "llvm.*"), BESIDE_OPENVINO),
        reading=("fp32, m × n × k, with constant B, stored as in its network. `packed weights` is the faster of "
                 "PyTorch's two operations on a packed B (oneDNN's and MKL's); our kernels also pack B before the "
                 "call, so this is the fair comparison. `torch.mm` packs B inside the call if it packs it at all.",
                 SEARCHED)),
    ProblemSet(
        "linear", "Linear layers of language models", _linear, ("linear", "onednn_packed", READ),
        (Comparison("the machine's limit", (LIMIT,), f"{PROPOSAL}*"),
         Comparison("the machine's limit, by the first proposal", (LIMIT,), f"{PROPOSAL}1"),
         Comparison("F.linear", ("linear",), f"{PROPOSAL}*"),
         Comparison("packed weights", ("onednn_packed",), f"{PROPOSAL}*")), proposals=2,
        reading=("fp32, m × n × k. Nothing is searched: ours is the best of two predictions. `the machine's limit` is "
                 "the time of reading the weights B once, or of the multiplications at the measured peak, whichever is "
                 "longer; the ratio is the share of what the machine allows. Above 1, the sum of B's elements, which "
                 "tells the time of reading, was slower at that moment.",
                 f"Up to {FEW_ROWS} rows, each call takes another copy of B, so that B is read from memory as in a "
                 "language model. With more rows, B may stay in the caches.",
                 "Reading and multiplying overlap only in part: where both take about as long, no share is 1. With "
                 "2,048 rows, the vocabulary's result has 412 MB of new memory, which the system fills with zeros "
                 "before: the share contains this.")),
    ProblemSet(
        "built", "Kernels taken home", _built, (*ONEDNN, *PACKED, *ONNX),
        tuple(Comparison(title + by, peers, f"{ours}*") for by, ours in (
            (", by the function in C", IN_C), (", by the call from Python", IN_PYTHON))
            for title, peers in (("best oneDNN or MKL", (*ONEDNN, *PACKED)), ("ONNX Runtime", ONNX))),
        built=True,
        reading=("Kernels as `seqtune build` gives them. The function in C (`NAME_run`) computes on memory that is "
                 "there; the call from Python makes a new array, as those of PyTorch and ONNX Runtime do. Weights are "
                 "packed before on all sides.",
                 "`best oneDNN or MKL` is the fastest of PyTorch's operations on packed weights and of F.conv2d on "
                 "channels_last input. `ONNX Runtime` is a model of one Conv or MatMul with constant weights, its "
                 "images in NCHW.", SEARCHED)),
    ProblemSet(
        "int8", "Matrix products of int8", _int8, ("onnx_product", OPENVINO),
        (Comparison("ONNX Runtime", ONNX, "llvm.*"), BESIDE_OPENVINO),
        reading=("Exact 32-bit sums, constant B. `ONNX Runtime` is MatMulInteger with A as unsigned bytes and the zero "
                 "point 128, its fastest form. OpenVINO's node returns its sums as fp32, and they may be rounded; "
                 "another node quantises its fp32 operand before.", SEARCHED)),
    ProblemSet(
        "opencl", "OpenCL convolutions of ResNet-18", lambda: _convolutions("resnet18"), ONEDNN,
        (Comparison("best oneDNN", ONEDNN, "opencl.*"),), backend="opencl",
        reading=("On a CPU through OpenCL, no GPU, and PyTorch on as many threads. Our kernels are timed from "
                 "enqueueing to the finish, between existing buffers.", SEARCHED)),
    ProblemSet(
        "runtimes", "OpenCL runtimes on one CPU", _runtimes, (),
        (Comparison("best of the other runtimes", ("opencl:*",), "opencl.*"),), backend="opencl", runtimes=True,
        reading=("The best kernels that a search found on the first runtime and on all others.", SEARCHED)))}
