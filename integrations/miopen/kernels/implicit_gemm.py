"""MIOpen's solvers that use implicit matrix products (HIP, MLIR, Composable Kernel) or Winograd's algorithm."""

from __future__ import annotations

from collections.abc import Mapping

from .solver import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    CHANNELS_SECOND,
    FORWARD,
    LEGACY,
    NCHW,
    NO_BIAS,
    ONE_GROUP,
    TWO_D,
    Condition,
    Solver,
    Tunable,
    dtypes,
    solver,
)

_PACKED = ("packed", "1 if dtype in ('fp32', 'int8') else 2")  # 16-bit values that are packed together
_POINTS = "n * out_d * out_h * out_w"  # pixels of the output
_TAPS = "c * t * r * s"  # weights of an output channel


def _v4r1(name: str, direction: Condition, sizes: Mapping[str, str], meaning: str) -> Solver:
    """Declare a V4R1 solver. `sizes` are those of its matrix product: images, rows of M, points of an image, K."""
    return solver(
        name,
        "BPerBlock KPerBlock EPerBlock GemmNRepeat GemmMPerThreadSubC GemmNPerThreadSubC GemmMLevel0Cluster "
        "GemmNLevel0Cluster GemmMLevel1Cluster GemmNLevel1Cluster InBlockCopyClusterLengths_E "
        "InBlockCopyClusterLengths_N1 InBlockCopyClusterLengths_B InBlockCopyClusterLengths_N2 "
        "WeiBlockCopyClusterLengths_E WeiBlockCopyClusterLengths_K",
        (
            Tunable("BPerBlock", (8, 16), "gemm N of a block, by 2 * GemmNPerThreadSubC images", (16,)),
            Tunable("KPerBlock", (16, 32, 64, 128), "gemm M of a block"),
            Tunable("EPerBlock", (4, 8, 16), "gemm K of a block"),
            Tunable("GemmMPerThreadSubC", (2, 4), "M of a thread, by two"),
            Tunable("GemmNPerThreadSubC", (2, 4), "N of a thread, by two"),
            Tunable("GemmMLevel0Cluster", (1, 2, 4), "neighbouring threads along M", (2, 4)),
            Tunable("GemmNLevel0Cluster", (1, 2, 4), "neighbouring threads along N", (4,)),
            Tunable("InBlockCopyClusterLengths_N1", (1, 2), "threads along the halves of N when copying the image"),
            Tunable("WeiBlockCopyClusterLengths_K", (16, 32, 64, 128), "threads along M when copying the weights"),
        ),
        (
            ("gemm_images % (2 * GemmNPerThreadSubC) == 0", "the batch must split evenly over the threads"),
            ("gemm_m % KPerBlock == 0", "M has no tail"),
            ("gemm_b % BPerBlock == 0", "N has no tail"),
            ("gemm_e % EPerBlock == 0", "K has no tail"),
            ("(gemm_m // KPerBlock) % groups == 0", "blocks must split evenly over groups"),
            ("EPerBlock % WeiBlockCopyClusterLengths_E == 0", "threads must split a tile evenly"),
            ("KPerBlock % WeiBlockCopyClusterLengths_K == 0", "threads must split a tile evenly"),
            ("GemmNPerThreadSubC % max(1, InBlockCopyClusterLengths_N2) == 0", "threads must split a tile evenly"),
            ("BPerBlock % GemmNLevel0Cluster == 0 and GemmNLevel1Cluster in (1, 2, 4)", "N is repeated twice"),
            ("KPerBlock % (2 * GemmMPerThreadSubC * GemmMLevel0Cluster) == 0 and GemmMLevel1Cluster in (1, 2, 4)",
             "M is repeated twice"),
            ("dtype == 'fp32' or GemmNPerThreadSubC == GemmMPerThreadSubC", "16-bit thread tiles are square"),
            ("64 <= block_size <= 512", "a work-group has 64 to 512 threads"),
            ("InBlockCopyClusterLengths_N2 in (1, 2, 4) and block_size == EPerBlock * InBlockCopyClusterLengths_N1"
             " * BPerBlock * InBlockCopyClusterLengths_N2", "all threads copy the image"),
            ("WeiBlockCopyClusterLengths_E in (1, 2, 4)"
             " and block_size == WeiBlockCopyClusterLengths_K * WeiBlockCopyClusterLengths_E",
             "all threads copy the weights"),
        ),
        (16, 64, 8, 4, 4, 4, 4, 1, 64),
        meaning=meaning,
        solves=(direction, NCHW, dtypes("fp32", "fp16", "bf16"), NO_BIAS, LEGACY),
        derived=(
            _PACKED,
            *sizes.items(),
            ("gemm_b", "(gemm_images // (2 * GemmNPerThreadSubC)) * gemm_points"),
            ("GemmMLevel1Cluster", "KPerBlock // (2 * GemmMPerThreadSubC * GemmMLevel0Cluster)"),
            ("GemmNLevel1Cluster", "BPerBlock // GemmNLevel0Cluster"),
            ("block_size", "GemmMLevel0Cluster * GemmNLevel0Cluster * GemmMLevel1Cluster * GemmNLevel1Cluster"),
            ("InBlockCopyClusterLengths_N2", "block_size // (EPerBlock * InBlockCopyClusterLengths_N1 * BPerBlock)"),
            ("WeiBlockCopyClusterLengths_E", "block_size // WeiBlockCopyClusterLengths_K"),
        ),
        prior=(("GemmNLevel1Cluster == 4 and GemmMLevel1Cluster in (2, 4) and InBlockCopyClusterLengths_N2 in (1, 2)",
                "the tuner tries others only where these leave nothing"),),
        written={"GemmNRepeat": "2", "GemmMLevel1Cluster": "GemmMLevel1Cluster",
                 "GemmNLevel1Cluster": "GemmNLevel1Cluster", "InBlockCopyClusterLengths_E": "EPerBlock",
                 "InBlockCopyClusterLengths_B": "BPerBlock",
                 "InBlockCopyClusterLengths_N2": "InBlockCopyClusterLengths_N2",
                 "WeiBlockCopyClusterLengths_E": "WeiBlockCopyClusterLengths_E"},
    )


V4R1_FORWARD = _v4r1("ConvHipImplicitGemmV4R1Fwd", FORWARD, {
    "gemm_images": "n", "gemm_m": "k", "gemm_points": "out_h * out_w",
    "gemm_e": "(c // groups // packed) * r * s"}, "implicit gemm over images, HIP")
V4R1_WEIGHTS = _v4r1("ConvHipImplicitGemmV4R1WrW", BACKWARD_WEIGHTS, {
    "gemm_images": "c // groups", "gemm_m": "k", "gemm_points": "r * s",
    "gemm_e": "(n // packed) * out_h * out_w"}, "weight gradient by implicit gemm over channels, HIP")

_GEMM_FIELDS = "BlockSize GemmMPerBlock GemmNPerBlock GemmKPerBlock GemmMPerThread GemmNPerThread"
_BLOCK = (
    Tunable("BlockSize", (64, 128, 256), "threads of a work-group"),
    Tunable("GemmMPerBlock", (32, 64, 128), "M of a block"),
    Tunable("GemmNPerBlock", (32, 64, 128), "N of a block"),
    Tunable("GemmKPerBlock", (4, 8, 16), "K of a block"),
)
_CLUSTERS = (("cluster_m", "{64: 8, 128: 16, 256: 16}[BlockSize]"),
             ("cluster_n", "{64: 8, 128: 8, 256: 16}[BlockSize]"))


def _gemm(name: str, direction: Condition, m: str, n: str, k: str, meaning: str, types: Condition) -> Solver:
    return solver(
        name,
        _GEMM_FIELDS,
        _BLOCK,
        (
            ("m_tail % GemmMPerBlock == 0", "M has no tail"),
            ("n_tail % GemmNPerBlock == 0", "N has no tail"),
            ("k_tail % GemmKPerBlock == 0", "K has no tail"),
            ("GemmMPerBlock % (2 * cluster_m) == 0 and GemmMPerThread in (2, 4)",
             "M is repeated exactly twice"),
            ("GemmNPerBlock % (2 * cluster_n) == 0 and GemmNPerThread in (2, 4)",
             "N is repeated exactly twice"),
            ("GemmKPerBlock * GemmMPerBlock >= BlockSize and GemmKPerBlock * GemmNPerBlock >= BlockSize",
             "each thread copies a part of both tiles"),
            ("2 * GemmKPerBlock * (GemmMPerBlock + GemmNPerBlock) * 4 <= local_memory",
             "two tiles of each must fit into local memory"),
        ),
        (256, 64, 64, 8),
        meaning=meaning,
        solves=(direction, CHANNELS_SECOND, types, ONE_GROUP, NO_BIAS, LEGACY),
        derived=(_PACKED, ("gemm_m", m), ("gemm_n", n), ("gemm_k", k),
                 ("m_tail", "gemm_m % 128"), ("n_tail", "gemm_n % 128"), ("k_tail", "gemm_k % 16"), *_CLUSTERS,
                 ("GemmMPerThread", "GemmMPerBlock // (2 * cluster_m)"),
                 ("GemmNPerThread", "GemmNPerBlock // (2 * cluster_n)")),
        written={"GemmMPerThread": "GemmMPerThread", "GemmNPerThread": "GemmNPerThread"},
    )


V4R4_FORWARD = _gemm("ConvHipImplicitGemmV4R4Fwd", FORWARD, "k", _POINTS, _TAPS, "implicit gemm, HIP", dtypes("fp32"))
V4R4_WEIGHTS = _gemm("ConvHipImplicitGemmV4R4WrW", BACKWARD_WEIGHTS, "k", _TAPS, _POINTS,
                     "weight gradient by implicit gemm, HIP", dtypes("fp32"))
V1R1_DATA = _gemm("ConvHipImplicitGemmBwdDataV1R1", BACKWARD_DATA, _TAPS, _POINTS, "k // packed",
                  "data gradient by implicit gemm, HIP", dtypes("fp32", "fp16", "bf16"))


def _mlir(name: str, direction: Condition, types: Condition, meaning: str) -> Solver:
    return solver(
        name,
        _GEMM_FIELDS,
        (*_BLOCK, Tunable("GemmMPerThread", (2, 4), "M of a thread"),
         Tunable("GemmNPerThread", (2, 4), "N of a thread")),
        (
            ("GemmKPerBlock * GemmMPerBlock >= BlockSize", "each thread copies a part of A"),
            ("GemmKPerBlock * GemmNPerBlock >= BlockSize", "each thread copies a part of B"),
            ("GemmMPerBlock % (GemmMPerThread * cluster_m) == 0", "threads must split M evenly"),
            ("GemmNPerBlock % (GemmNPerThread * cluster_n) == 0", "threads must split N evenly"),
        ),
        (256, 64, 64, 8, 4, 4),
        meaning=meaning,
        solves=(direction, TWO_D, types, NO_BIAS,
                ("architecture != 'gfx900' and matrix_units == 0", "it is for GPUs without matrix units, but gfx900")),
        derived=_CLUSTERS,
    )


MLIR_FORWARD = _mlir("ConvMlirIgemmFwd", FORWARD, dtypes("fp32", "fp16", "int8"), "implicit gemm, MLIR")
MLIR_DATA = _mlir("ConvMlirIgemmBwd", BACKWARD_DATA, dtypes("fp32", "fp16"), "data gradient by implicit gemm, MLIR")
MLIR_WEIGHTS = _mlir("ConvMlirIgemmWrW", BACKWARD_WEIGHTS, dtypes("fp32", "fp16"),
                     "weight gradient by implicit gemm, MLIR")

CK_V6R1 = solver(
    "ConvCkIgemmFwdV6r1DlopsNchw", "ck_tunable_list_id",
    (Tunable("ck_tunable_list_id", range(20), "place in Composable Kernel's list of configurations"),),
    (), (0,), meaning="implicit gemm, Composable Kernel",
    solves=(FORWARD, NCHW, dtypes("fp32", "fp16"), NO_BIAS, ("dot2 == 1 or generation == 10", "it needs dot products")))


def _winograd(name: str, meaning: str) -> Solver:
    return solver(
        name, "n_groups",
        (Tunable("n_groups", range(1, 513), "work-groups, which stay until all is done"),),
        (("n_groups <= compute_units", "each work-group needs a compute unit"),),
        (60,), meaning=meaning,
        solves=(NCHW, dtypes("fp32", "fp16"), NO_BIAS, ("stride_h <= 2 and stride_w <= 2", "its stride is 1 or 2"),))


WINOGRAD_2X3 = _winograd("ConvBinWinogradRxSf2x3", "Winograd F(2, 3), assembly")
WINOGRAD_3X2 = _winograd("ConvBinWinogradRxSf3x2", "Winograd F(3, 2), assembly")
