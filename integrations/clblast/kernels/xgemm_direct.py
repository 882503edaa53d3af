"""clblast.xgemm_direct: CLBlast's matrix product in one launch, without copies; by default for small problems.

The parameters, their values and their constraints are those of CLBlast 1.5.3 (`src/tuning/kernels/xgemm_direct.hpp`,
variation 2), with smaller work-groups in addition. `prior` holds the limits of its tuner.
"""

from __future__ import annotations

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.launches.indexing import offsets_fit

from .library import IMPLEMENTATION

# The edge of the cube below which CLBlast calls this kernel on devices that its database does not know.
MIN_INDIRECT_SIZE = 896

KERNEL = Kernel.of(
    name="clblast.xgemm_direct",
    operation="gemm",
    meaning="CLBlast's matrix product in one launch",
    parameters=(
        Parameter("WGD", (8, 16, 32, 64), "rows and columns of C of a work-group, and its steps of k"),
        Parameter("MDIMCD", (4, 8, 16, 32), "work-items of a group along the rows of C"),
        Parameter("NDIMCD", (4, 8, 16, 32), "work-items of a group along the columns of C"),
        Parameter("VWMD", (1, 2, 4, 8), "vector width of loads of A"),
        Parameter("VWND", (1, 2, 4, 8), "vector width of loads of B"),
        Parameter("KWID", (2, 8, 16), "unrolled steps of k"),
        Parameter("MDIMAD", (4, 8, 16, 32), "work-items along the rows while they copy a tile of A"),
        Parameter("NDIMBD", (4, 8, 16, 32), "work-items along the columns while they copy a tile of B"),
        Parameter("PADA", (0, 1), "numbers between the columns of A in local memory"),
        Parameter("PADB", (0, 1), "numbers between the rows of B in local memory"),
    ),
    derived=(
        ("items", "MDIMCD * NDIMCD"),
        ("item_m", "WGD // MDIMCD"),
        ("item_n", "WGD // NDIMCD"),
        ("item_numbers", "item_m * item_n"),
        ("waste_m", "round_up(m, WGD) / m"),
        ("waste_n", "round_up(n, WGD) / n"),
        ("rest_k", "k % WGD / k"),
        ("work_groups", "ceil_div(m, WGD) * ceil_div(n, WGD)"),
        ("groups_per_unit", "work_groups / compute_units"),
        ("idle", "ceil_div(work_groups, compute_units) * compute_units / work_groups"),
        ("whole_groups", "(m // WGD) * (n // WGD) / work_groups"),
        ("loads_per_fma", "(item_m + item_n) / item_numbers"),
        ("unrolled", "item_numbers * KWID"),
        ("local_bytes", "4 * WGD * (2 * WGD + PADA + PADB)"),
        ("panel_bytes", "8 * k * WGD"),
    ),
    solves=(
        ("dtype == 'fp32'", "only fp32"),
        ("bias == 'no' and activation == 'none'", "no epilogue"),
        *offsets_fit("gemm"),
    ),
    constraints=(
        ("items <= max_work_group", "the device has smaller work-groups"),
        ("WGD % KWID == 0", "the unrolled steps must divide the steps of k"),
        ("WGD % (MDIMCD * VWMD) == 0", "the vectors of a work-item must fill its rows"),
        ("WGD % (NDIMCD * VWND) == 0", "the vectors of a work-item must fill its columns"),
        ("WGD % (MDIMAD * VWMD) == 0", "the vectors of a copying work-item must fill its rows"),
        ("WGD % (NDIMBD * VWND) == 0", "the vectors of a copying work-item must fill its columns"),
        ("MDIMAD <= items and WGD % (items // MDIMAD) == 0", "the work-items that copy A must divide the steps of k"),
        ("NDIMBD <= items and WGD % (items // NDIMBD) == 0", "the work-items that copy B must divide the steps of k"),
        ("MDIMAD == MDIMCD or threads == 0 and MDIMAD >= 8", "a CPU gains nothing by another shape while it copies A"),
        ("NDIMBD == NDIMCD or threads == 0 and NDIMBD >= 8", "a CPU gains nothing by another shape while it copies B"),
        ("unrolled <= 1024", "so many unrolled steps take minutes to compile"),
        ("local_memory == 0 or local_bytes <= local_memory", "the tiles must fit in the local memory"),
    ),
    prior=(
        ("MDIMCD >= 8 and NDIMCD >= 8 and MDIMAD >= 8 and NDIMBD >= 8", "CLBlast's tuner does not go below"),
    ),
    default={"WGD": 16, "MDIMCD": 8, "NDIMCD": 8, "VWMD": 1, "VWND": 1, "KWID": 2, "MDIMAD": 8, "NDIMBD": 8,
             "PADA": 1, "PADB": 1},
    default_for=f"m * n * k < {MIN_INDIRECT_SIZE} * {MIN_INDIRECT_SIZE} * {MIN_INDIRECT_SIZE}",
    implementation=IMPLEMENTATION,
    backends=("opencl",),
)
