"""Instructions of inner loops are counted in assembly, for ARM and for x86."""

from __future__ import annotations

import pytest

from benchmarks.kernels.inner_loops import InnerLoop, inner_loops, main_loop
from benchmarks.kernels.static_quality import BAR, PROBLEMS, TileShape, loop_of, page
from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.discovery import find

ARM = """
tile:
\t.cfi_startproc
\tfmla\tv0.4s, v1.4s, v2.s[0]
.LBB0_1:
\tldp\tq24, q25, [x1]
\tld1r\t{ v26.4s }, [x12], x11
\tldr\ts27, [x0, #1024]
\tfmla\tv20.4s, v25.4s, v27.s[0]
\tfmla\tv4.4s, v24.4s, v26.4s
\tstr\tq0, [sp]                         // 16-byte Folded Spill
\tb.lo\t.LBB0_1
// %bb.2:
\tfmla\tv0.4s, v1.4s, v2.4s
\tret
"""
X86 = """
tile:
.LBB0_1:                                # =>This Inner Loop Header: Depth=1
\tvmovups\t(%rsi,%rax,4), %zmm16
\tvbroadcastss\t8(%rdi), %zmm17
\tvfmadd231ps\t%zmm16, %zmm17, %zmm0
\tvfmadd231ps\t(%rdx){1to16}, %zmm17, %zmm1
\tprefetcht0\t8192(%rsi)
\tvmovups\t%zmm1, 64(%rsp)                # 64-byte Spill
\tleaq\t4(%rdi), %rdi
\tcmpq\t%rax, %rcx
\tjne\t.LBB0_1
.LBB0_2:
\taddq\t$1, %rax
\tjne\t.LBB0_2
\tvfmadd231ps\t%zmm16, %zmm17, %zmm0
\tretq
"""


def test_one_pass_of_an_inner_loop_is_counted() -> None:
    assert inner_loops(ARM) == [InnerLoop(fused=2, loads=4, instructions=7)]
    assert inner_loops(X86) == [InnerLoop(fused=2, loads=3, instructions=9)]
    assert main_loop(X86 + ARM.replace("ldr\ts27", "fmla\ts27")) == InnerLoop(3, 3, 7)
    assert main_loop("tile:\n\tret\n") is None


def test_shares_are_relative_to_what_the_tile_allows() -> None:
    tile = TileShape.of(Configuration.of("llvm.direct", {"vectors_k": 2, "tile_w": 4, "tile_h": 2}))
    assert tile == TileShape(8, 2)
    assert tile.shares(InnerLoop(32, 20, 52)) == (1.0, 1.0)
    assert tile.shares(InnerLoop(32, 40, 104)) == (0.5, 0.5)


@pytest.mark.parametrize(("family", "words"), [(family, words[0]) for family, words in PROBLEMS.items()])
def test_the_problems_are_for_their_family_and_its_default_multiplies_in_a_loop(family: str, words: str) -> None:
    assert sum(map(len, PROBLEMS.values())) == 30
    for each in PROBLEMS[family]:
        assert kernel(family).operation == parse_problem(each).type
    device = find("llvm:neoverse-n1")
    space = SearchSpace(kernel(family), parse_problem(words), device)
    try:
        loop = loop_of(space.default, words, device)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert loop is not None
    assert loop.fused % (TileShape.of(space.default).pixels * TileShape.of(space.default).vectors) == 0


def test_the_page_counts_the_loops_above_the_bar() -> None:
    row = {"device": "llvm:neon:1", "kernel": "llvm.gemm", "problem": "gemm m=1 n=4 k=1", "pixels": 8, "vectors": 2,
           "configuration": {}, "fused": 32, "loads": 20, "instructions": 60, "per_load": 1.0, "per_instruction": 0.87}
    timed = {"device": "llvm:neon:1", "kernel": "llvm.gemm", "problem": "gemm m=1 n=4 k=1", "configurations": 40,
             "work": 0.75, "instructions": 0.5}
    made = page({"date": "2026-01-01", "toolchain": "LLVM 22", "rows": [row, {**row, "per_instruction": 0.95}],
                 "timed": [timed]})
    assert "| llvm:neon:1 | llvm.gemm | gemm m=1 n=4 k=1 | 40 | 0.75 | 0.50 |" in made.markdown()
    assert made.claim.startswith(f"Of 2 inner loops of proposed tiles, 1 have at least {BAR} of")
    assert "| llvm:neon:1 | llvm.gemm | 2 | 1.00 | 1.00 | 0.87 | 0.91 | 1 |" in made.markdown()
    assert made.folder == "internals"
