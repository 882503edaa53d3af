"""clblast.xgemm: CLBlast's "indirect" matrix product, which first copies operands that do not fit its tiles.

The parameters, their values and their constraints are those of CLBlast 1.5.3 (`src/tuning/kernels/xgemm.hpp`,
variations 2 and 12, and the comments of `src/kernels/level3/xgemm_part1.opencl`), with smaller work-groups of kernel 0
in addition, which CPUs like. `prior` holds the limits of its tuner. Two more limits are from measurements: kernel 1
writes outside C where MWG and NWG differ, and vectors of 16, which the kernels name, give wrong results. The copies
follow from `src/routines/level3/xgemm.hpp`, for matrices stored by rows: kernel 0 reads A and writes C transposed.
Parameters that a configuration does not use have one value, so that no two configurations build the same code.
"""

from __future__ import annotations

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.launches.indexing import offsets_fit

from .library import IMPLEMENTATION

KERNEL = Kernel.of(
    name="clblast.xgemm",
    operation="gemm",
    meaning="CLBlast's matrix product of copied, padded operands",
    parameters=(
        Parameter("GEMMK", (0, 1), "kernel: 0 by work-groups through local memory, 1 by register tiles"),
        Parameter("MWG", (8, 16, 32, 64, 128), "rows of C of a work-group"),
        Parameter("NWG", (8, 16, 32, 64, 128), "columns of C of a work-group"),
        Parameter("MDIMC", (2, 4, 8, 16, 32), "work-items of a group along the rows of C"),
        Parameter("NDIMC", (2, 4, 8, 16, 32), "work-items of a group along the columns of C"),
        Parameter("VWM", (1, 2, 4, 8), "vector width of loads of A and stores of C"),
        Parameter("VWN", (1, 2, 4, 8), "vector width of loads of B"),
        Parameter("KWG", (1, 16, 32), "steps of k of a work-group, kernel 0"),
        Parameter("KWI", (1, 2), "unrolled steps of k, kernel 0"),
        Parameter("KREG", (1, 2, 4, 8, 16), "steps of k in registers, kernel 1"),
        Parameter("SA", (0, 1), "whether tiles of A pass through local memory"),
        Parameter("SB", (0, 1), "whether tiles of B pass through local memory"),
        Parameter("MDIMA", (2, 4, 8, 16, 32), "work-items along the rows while they copy a tile of A"),
        Parameter("NDIMB", (2, 4, 8, 16, 32), "work-items along the columns while they copy a tile of B"),
        Parameter("STRM", (0, 1), "whether a work-item's vectors of A lie apart"),
        Parameter("STRN", (0, 1), "whether a work-item's vectors of B lie apart"),
    ),
    derived=(
        ("items", "MDIMC * NDIMC"),
        ("item_m", "MWG // MDIMC"),
        ("item_n", "NWG // NDIMC"),
        ("item_numbers", "item_m * item_n"),
        ("k_step", "KWG * KREG"),
        ("padded_m", "round_up(m, MWG)"),
        ("padded_n", "round_up(n, NWG)"),
        ("padded_k", "round_up(k, k_step)"),
        ("waste", "padded_m / m * (padded_n / n) * (padded_k / k)"),
        ("turned_a", "(1 if GEMMK == 1 else 0) if trans_a == 'yes' else (1 if GEMMK == 0 else 0)"),
        ("copies_a", "1 if turned_a == 1 or padded_m > m or padded_k > k else 0"),
        ("copies_b", "1 if trans_b == 'yes' or padded_n > n or padded_k > k else 0"),
        ("copies_c", "1 if GEMMK == 0 or padded_m > m or padded_n > n else 0"),
        ("copied", "copies_a * padded_m / n / m + copies_b * padded_n / m / n + copies_c * padded_m / k / m"),
        ("copies", "copies_a + copies_b + copies_c"),
        ("work_groups", "padded_m // MWG * (padded_n // NWG)"),
        ("groups_per_unit", "work_groups / compute_units"),
        ("idle", "ceil_div(work_groups, compute_units) * compute_units / work_groups"),
        ("loads_per_fma", "(item_m / VWM + item_n / VWN) / item_numbers"),
        ("registers", "ceil_div(VWM, vector_floats) * (item_m // VWM) * item_n"),
        ("local_bytes", "4 * KWG * (SA * MWG + SB * NWG)"),
        ("panel_bytes", "4 * padded_k * (MWG + NWG)"),
    ),
    solves=(
        ("dtype == 'fp32'", "only fp32"),
        ("bias == 'no' and activation == 'none'", "no epilogue"),
        *offsets_fit("gemm"),
    ),
    constraints=(
        ("GEMMK == 1 or MWG >= 16 and NWG >= 16", "kernel 0 has tiles of at least 16"),
        ("items <= max_work_group", "the device has smaller work-groups"),
        ("MWG % (MDIMC * VWM) == 0", "the vectors of a work-item must fill its rows"),
        ("NWG % (NDIMC * VWN) == 0", "the vectors of a work-item must fill its columns"),
        ("item_numbers <= 256", "a larger tile of a work-item only spills registers, and takes minutes to compile"),
        ("GEMMK == 0 or MWG == NWG", "kernel 1 counts its work-groups with MWG and NWG exchanged"),
        ("(KWG == 1) == (GEMMK == 1)", "KWG is 1 in kernel 1 alone"),
        ("(KWI == 1) == (GEMMK == 1)", "KWI is 1 in kernel 1 alone"),
        ("KREG == 1 or GEMMK == 1", "KREG is for kernel 1"),
        ("GEMMK == 0 or KREG % VWN == 0", "KREG must be a multiple of VWN"),
        ("GEMMK == 0 or item_numbers * KREG <= 1024", "so many unrolled steps take minutes to compile"),
        ("SA == 0 or GEMMK == 0", "kernel 1 uses no local memory"),
        ("SB == 0 or GEMMK == 0", "kernel 1 uses no local memory"),
        ("local_memory == 0 or local_bytes <= local_memory", "the tiles must fit in the local memory"),
        ("SA == 1 or MDIMA == MDIMC", "MDIMA is used with SA alone"),
        ("SB == 1 or NDIMB == NDIMC", "NDIMB is used with SB alone"),
        ("MWG % (MDIMA * VWM) == 0", "the vectors of a copying work-item must fill its rows"),
        ("NWG % (NDIMB * VWN) == 0", "the vectors of a copying work-item must fill its columns"),
        ("GEMMK == 1 or MDIMA <= items and KWG % (items // MDIMA) == 0",
         "the work-items that copy A must divide the steps of k"),
        ("GEMMK == 1 or NDIMB <= items and KWG % (items // NDIMB) == 0",
         "the work-items that copy B must divide the steps of k"),
        ("SA + SB + STRM + STRN == 0 or MDIMC >= 8 and NDIMC >= 8 and MDIMA >= 8 and NDIMB >= 8",
         "small work-groups are for CPUs, which gain nothing by local memory or strides"),
        ("threads == 0 or STRM + STRN == 0 and SA == SB and MDIMA == MDIMC and NDIMB == NDIMC",
         "a CPU gains nothing by strides, nor by another shape of the work-group while it copies"),
        ("STRM == 0 or GEMMK == 0 and item_m > VWM", "there is one vector of A, which cannot lie apart"),
        ("STRN == 0 or GEMMK == 0 and item_n > VWN", "there is one vector of B, which cannot lie apart"),
    ),
    prior=(
        ("GEMMK == 1 or MDIMC >= 8 and NDIMC >= 8", "CLBlast's tuner does not go below"),
    ),
    default={"GEMMK": 0, "MWG": 32, "NWG": 32, "MDIMC": 8, "NDIMC": 16, "VWM": 4, "VWN": 2, "KWG": 32, "KWI": 2,
             "KREG": 1, "SA": 1, "SB": 1, "MDIMA": 8, "NDIMB": 16, "STRM": 0, "STRN": 0},
    implementation=IMPLEMENTATION,
    backends=("opencl",),
)
