"""Public names of exported predictors: two files with different prefixes live in one program."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.file import c_file
from seqtune.predictor.c_source.public_names import LONGEST, check_prefix, with_prefix
from tests.support.learning.c_programs import CPU, needs_compiler, run_program, small_checkpoint

ASKED = Problem.make("gemm", m=64, n=256, k=128)
# Asks the predictor whose names begin with PREFIX, and prints its best configuration.
QUESTION = """
static int ask_PREFIX(void) {
    PREFIX_problem problem;
    PREFIX_device device;
    PREFIX_configuration best;
    int i;
    if (PREFIX_problem_init(&problem, CAPITALS_GEMM) || problem.of.gemm.m != CAPITALS_UNKNOWN) return 1;
    problem.of.gemm.m = 64;
    problem.of.gemm.n = 256;
    problem.of.gemm.k = 128;
    PREFIX_device_init(&device);
    device.backend = "llvm";
    device.instruction_set = "avx2";
    device.architecture = "znver3";
    device.threads = 2;
    device.compute_units = 2;
    device.vector_bits = 256;
    device.vector_registers = 16;
    device.l1_bytes = 32768;
    device.l2_bytes = 524288;
    device.l3_bytes = 1 << 24;
    device.peak_gflops = 90.0;
    device.bandwidth_gbs = 20.0;
    if (PREFIX_predict(&problem, &device, &best, 1) != 1) return 2;
    if (PREFIX_predict(&problem, &device, &best, 0) != CAPITALS_ERROR_COUNT) return 3;
    printf("%s", best.kernel);
    for (i = 0; i < best.count; ++i) {
        const PREFIX_setting *setting = &best.setting[i];
        if (setting->word)
            printf(" %s=%s", setting->name, setting->word);
        else
            printf(" %s=%ld", setting->name, (long)setting->number);
    }
    printf("\\n");
    return 0;
}
"""


@needs_compiler
def test_two_files_with_different_prefixes_answer_in_one_program(tmp_path: Path) -> None:
    checkpoints = {"first": small_checkpoint(CPU), "Second_1": small_checkpoint(CPU, judge=0)}
    for prefix, checkpoint in checkpoints.items():
        written = c_file(checkpoint, prefix=prefix)
        assert written.header.strip() in written.source
        (tmp_path / f"{prefix}.h").write_text(written.header)
        (tmp_path / f"{prefix}.c").write_text(written.source)
    caller = tmp_path / "caller.c"
    caller.write_text("\n".join([
        "#include <stdio.h>", *(f'#include "{prefix}.h"' for prefix in checkpoints),
        *(QUESTION.replace("PREFIX", prefix).replace("CAPITALS", prefix.upper()) for prefix in checkpoints),
        f"int main(void) {{ return {' || '.join(f'ask_{prefix}()' for prefix in checkpoints)}; }}"]) + "\n")
    printed = run_program(caller, "-O0", *(str(tmp_path / f"{prefix}.c") for prefix in checkpoints))
    proposed = [checkpoint.propose([Task.of(ASKED, CPU)], 1)[0][0].configuration
                for checkpoint in checkpoints.values()]
    assert printed.splitlines() == [f"{configuration.kernel} {configuration.brief()}" for configuration in proposed]


def test_only_declared_names_change_and_strings_stay() -> None:
    header = '#define SEQTUNE_MOST 16\n} seqtune_device;\nint seqtune_predict(void);'
    source = """/* It's "seqtune_predict". */
#if !defined(SEQTUNE_PORTABLE)
char quote = '"', *name = "seqtune_predict(\\" seqtune_device"; seqtune_device one; int seqtune_other;
#endif
int most = SEQTUNE_MOST, found = seqtune_predict();"""
    assert with_prefix(source, header, "mine") == """/* It's "mine_predict". */
#if !defined(SEQTUNE_PORTABLE)
char quote = '"', *name = "seqtune_predict(\\" seqtune_device"; mine_device one; int seqtune_other;
#endif
int most = MINE_MOST, found = mine_predict();"""
    assert with_prefix(source, header, "seqtune") is source


@pytest.mark.parametrize("prefix", ["", "2nd", "a-b", "a__b", "a_", "_a", "é", "a" * (LONGEST + 1), "a\n", 5, None])
def test_what_begins_no_name_of_c_is_refused(prefix: object) -> None:
    with pytest.raises(MisuseError, match="cannot begin names of C") as refusal:
        check_prefix(prefix)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("prefix", ["sq", "SQ", "sq_2"])
def test_the_prefix_of_the_files_own_names_is_refused(prefix: str) -> None:
    with pytest.raises(MisuseError, match="begins the file's own names"):
        check_prefix(prefix)
