"""MIOpenDriver command lines: which convolution they describe, and what cannot be read."""

from __future__ import annotations

import warnings

import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem

MIOPEN = "conv -n 128 -c 1024 -H 14 -W 14 -k 2048 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1"


@pytest.mark.filterwarnings("ignore:MIOpenDriver --forw")
def test_miopen_command_lines_are_read() -> None:
    wanted = Problem.make("conv2d", n=128, c=1024, h=14, w=14, k=2048, r=1, s=1)
    long = (
        "--batchsize 128 --in_channels 1024 --in_h 14 --in_w 14 --out_channels 2048 --fil_h 1 --fil_w=1 "
        "--pad_h 0 --pad_w 0 --conv_stride_h 1 --conv_stride_w 1 --dilation_h 1 --dilation_w 1 --group_count 1"
    )
    for line in (
        MIOPEN,
        f"./bin/MIOpenDriver {MIOPEN} -m conv -g 1 -F 1 -t 1 -V 0 -i 3 -s 0",
        f"MIOpenDriver conv {long} --search 1",
        f"MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {MIOPEN} -m conv -F 1",
        f"{MIOPEN} -S -1 --in_layout NCHW --fil_layout NCHW --out_layout NCHW",
    ):
        assert parse_problem(line) == wanted
        assert parse_problem(line.split()) == wanted
    small = Problem.make("conv2d", c=64, h=56, w=56, k=64, r=3, s=3, pad_h=1, pad_w=1)
    assert parse_problem("conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1") == small
    other = parse_problem(
        "convfp16 -n 2 -c 8 -H 14 -W 15 -k 4 -y 3 -x 5 -p 1 -q 2 -u 2 -v 3 -l 2 -j 1 -g 4 -F 4 -b 1 -I NHWC"
    )
    assert other == Problem.make(
        "conv2d",
        n=2,
        c=8,
        h=14,
        w=15,
        k=4,
        r=3,
        s=5,
        pad_h=1,
        pad_w=2,
        stride_h=2,
        stride_w=3,
        dilation_h=2,
        groups=4,
        direction="backward_weights",
        bias="yes",
        layout="NHWC",
        dtype="fp16",
    )
    for forw, direction in (
        ("0", "forward"),
        ("1", "forward"),
        ("2", "backward_data"),
        ("3", "forward"),
        ("6", "backward_data"),
    ):
        assert parse_problem(f"{MIOPEN} -F {forw}")["direction"] == direction
    assert parse_problem("convbfp16 -c 8 -H 14 -W 15 -k 4 -y 3 -x 3")["n"] == 100  # the driver's own default


@pytest.mark.parametrize(("form", "message"), [
    ("conv -c 3 -H 4", "needs -W"),
    (f"{MIOPEN} -m trans", "cannot be read here"),
    (f"{MIOPEN} --spatial_dim 3", "spatial_dim"),
    (f"{MIOPEN} -Q 3", "no option '-Q'"),
    (f"{MIOPEN} -g", "needs a value"),
    (f"{MIOPEN} -F 9", "forw 9"),
    (f"{MIOPEN} -I NHWC -O NCHW", "mixed layouts"),
    ("MIOpenDriver pool -n 3", "only conv"),
    ("MIOpenDriver", "nothing"),
    (f"{MIOPEN} -z same", "pad_mode")])
def test_a_line_that_cannot_be_read_is_refused_in_one_line(form: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as refusal:
        parse_problem(form)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(("bits", "direction", "said"), [
    ("1", "forward", ""), ("2", "backward_data", ""), ("4", "backward_weights", ""),
    ("0", "forward", "runs forward, backward_data, backward_weights; the answer is for forward alone"),
    ("3", "forward", "runs forward, backward_data; the answer is for forward alone"),
    ("5", "forward", "runs forward, backward_weights; the answer is for forward alone"),
    ("6", "backward_data", "--forw 6 runs backward_data, backward_weights; the answer is for backward_data alone"),
    ("7", "forward", "--forw 7 runs forward, backward_data, backward_weights; the answer is for forward alone"),
    (None, "forward", "")])
def test_a_line_of_several_directions_says_which_one_is_answered(bits: str | None, direction: str, said: str) -> None:
    line = "MIOpenDriver conv -n 8 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3" + ("" if bits is None else f" -F {bits}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert parse_problem(line)["direction"] == direction
    assert [said in str(warning.message) for warning in caught] == [True] * bool(said)
