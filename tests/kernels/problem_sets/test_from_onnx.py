"""Problems of ONNX models: what each node becomes, and that none is lost; files that are hostile or incomplete."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, load_model, save_model

from seqtune.cli.arguments import input_sizes
from seqtune.errors import FormatError, ProblemError
from seqtune.kernels.problem_sets import onnx_file, onnx_shapes
from seqtune.kernels.problem_sets.from_onnx import OnnxProblems, read_onnx
from seqtune.kernels.problem_sets.onnx_operators import products_in
from seqtune.kernels.problem_sets.parse import parse_problem
from tests.support.onnx_files import Axes, write_network, write_onnx

node = helper.make_node
FIRST = "conv2d c=3 h=16 w=16 k=8 r=3 s=3 pad=1 bias=yes activation=relu"
SECOND = "conv2d c=8 h=16 w=16 k=8 r=3 s=3 pad=1 bias=yes activation=relu"


def one_node(path: Path, kind: str, inputs: Mapping[str, Axes], weights: Mapping[str, Sequence[int]],
             **attributes: Any) -> OnnxProblems:
    """The problems of a model of one node."""
    return read_onnx(write_onnx(path / "one.onnx", [node(kind, [*inputs, *weights], ["y"], **attributes)], inputs,
                                weights))


def test_every_node_is_a_problem_a_part_of_one_or_counted(tmp_path: Path) -> None:
    found = read_onnx(write_network(tmp_path / "network.onnx"))
    assert [(each.name, each.problem, each.count) for each in found.nodes] == [
        ("first", parse_problem(FIRST), 1), ("second", parse_problem(SECOND), 1), ("third", parse_problem(SECOND), 1),
        ("last", parse_problem("gemm m=1 n=10 k=8 trans_b=yes bias=yes"), 1)]
    assert (found.undescribed, dict(found.absorbed)) == ((), {"Relu": 3})
    assert dict(found.others) == {"GlobalAveragePool": 1, "Flatten": 1, "Softmax": 1}


@pytest.mark.parametrize(("size", "attributes", "text", "noted"), [
    ((9, 9), {}, "h=9 w=9", False),
    ((9, 9), {"pads": [1, 2, 1, 2], "strides": [2, 1]}, "h=9 w=9 pad_h=1 pad_w=2 stride_h=2", False),
    ((20, 20), {"dilations": [2, 3], "auto_pad": "VALID"}, "h=20 w=20 dilation_h=2 dilation_w=3", False),
    ((9, 9), {"auto_pad": "SAME_UPPER"}, "h=9 w=9 pad=1", False),
    ((8, 9), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, "h=9 w=9 pad_w=1 stride=2", True),
    ((9, 9), {"pads": [0, 1, 1, 3]}, "h=10 w=11 pad_w=1", True)])
def test_padding_on_one_side_is_part_of_the_input(
        size: tuple[int, int], attributes: dict[str, Any], text: str, noted: bool, tmp_path: Path) -> None:
    (found,) = one_node(tmp_path, "Conv", {"x": (1, 4, *size)}, {"w": (6, 4, 3, 3)}, **attributes).nodes
    assert found.problem == parse_problem(f"conv2d c=4 k=6 r=3 s=3 {text}")
    assert bool(found.note) is noted


@pytest.mark.parametrize(("a", "b", "text", "count"), [
    ((5, 7), (7, 3), "m=5 n=3 k=7", 1), ((2, 5, 7), (7, 3), "m=10 n=3 k=7", 1), ((7,), (7, 3), "m=1 n=3 k=7", 1),
    ((2, 5, 7), (7,), "m=10 n=1 k=7", 1), ((2, 6, 5, 7), (2, 6, 7, 3), "m=5 n=3 k=7", 12),
    ((5, 7), (4, 7, 3), "m=5 n=3 k=7", 4), ((2, 1, 5, 7), (6, 7, 3), "m=5 n=3 k=7", 12)])
def test_products_of_many_matrices_are_counted(
        a: tuple[int, ...], b: tuple[int, ...], text: str, count: int, tmp_path: Path) -> None:
    (found,) = one_node(tmp_path, "MatMul", {"a": a, "b": b}, {}).nodes
    assert (found.problem, found.count) == (parse_problem(f"gemm {text}"), count)


def test_a_sum_is_a_bias_only_if_it_has_one_number_for_each_column(tmp_path: Path) -> None:
    found = read_onnx(write_onnx(tmp_path / "sums.onnx", [
        node("MatMul", ["x", "w"], ["p"]), node("Add", ["b", "p"], ["q"]), node("Relu", ["q"], ["r"]),
        node("MatMul", ["r", "w"], ["s"]), node("Add", ["s", "x"], ["t"]),  # a residual
        node("Gemm", ["t", "w", "x"], ["u"], transA=1), node("Relu", ["u"], ["v"]), node("Neg", ["u"], ["z"]),
        node("Gemm", ["z", "w", "b"], ["y"], alpha=0.5)],
        {"x": (8, 8)}, {"w": (8, 8), "b": (8,)}))
    plain = "gemm m=8 n=8 k=8"
    assert [each.problem for each in found.nodes] == list(map(parse_problem, (
        f"{plain} bias=yes activation=relu", plain, f"{plain} trans_a=yes", f"{plain} bias=yes")))
    assert [each.note for each in found.nodes] == ["", "", "without the matrix that is added", "without its factors"]
    assert dict(found.absorbed) == {"Add": 1, "Relu": 1}
    assert dict(found.others) == {"Add": 1, "Relu": 1, "Neg": 1}


def test_products_that_no_problem_describes_are_named_with_the_reason(tmp_path: Path) -> None:
    body = helper.make_graph([node("MatMul", ["x", "x"], ["inner"])], "body", [],
                             [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])
    found = read_onnx(write_onnx(tmp_path / "odd.onnx", [
        node("ConvTranspose", ["image", "w"], ["a"], "up"), node("Einsum", ["x", "x"], ["b"], equation="ij,jk->ik"),
        node("If", ["yes"], ["c"], then_branch=body, else_branch=body),
        node("FusedConv", ["image", "w"], ["d"], domain="com.example"), node("Conv", ["d", "w"], ["e"]),
        node("Conv", ["volume", "v"], ["f"]), node("Cast", ["x"], ["g"], to=TensorProto.DOUBLE),
        node("MatMul", ["g", "g"], ["h"])],
        {"x": (8, 8), "image": (1, 4, 8, 8), "volume": (1, 4, 8, 8, 8), "yes": ()},
        {"w": (4, 4, 3, 3), "v": (4, 4, 3, 3, 3)}))
    assert found.nodes == ()
    assert [(each.operator, each.reason) for each in found.undescribed] == [
        ("ConvTranspose", "a transposed convolution"), ("Einsum", "a sum of products by an equation"),
        ("If", "it runs 2 of its own as often as it decides (MatMul)"),
        ("com.example.FusedConv", "com.example is not ONNX's own domain"),
        ("Conv", "the shape of 'd' is unknown"), ("Conv", "a convolution of 3 axes"),
        ("MatMul", "its operands are DOUBLE")]
    assert found.undescribed[0].name == "up"
    assert dict(found.others) == {"Cast": 1}


def test_open_sizes_are_asked_for_and_given_once_for_each_name(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "open.onnx", [
        node("Add", ["x", "mask"], ["s"]), node("MatMul", ["s", "w"], ["y"])],
        {"x": ("batch", "length", 16), "mask": ("batch", "length", None)}, {"w": (16, 8)})
    with pytest.raises(ProblemError, match=r"the shape of 's' is unknown: give --input x=1x128x16 --input mask=1x128x"):
        read_onnx(path)
    (found,) = read_onnx(path, {"x": (2, 10, 16)}).nodes
    assert found.problem == parse_problem("gemm m=20 n=8 k=16")
    for sizes, says in (({"z": (1,)}, "no input 'z'; it has 'x', 'mask'"), ({"x": (2, 10)}, "has 3 axes, not 2"),
                        ({"x": (2, 10, 8)}, "axis 2 of input 'x' has 16 elements, not 8"),
                        ({"x": (0, 1, 16)}, "a whole number from 1"),
                        ({"x": (2, 10, 16), "mask": (3, 10, 16)}, "axis 0 of input 'mask' has 2 elements, not 3")):
        with pytest.raises(ProblemError, match=says):
            read_onnx(path, sizes)


LONG = "a_tensor_with_a_long_name_as_exporters_write_them/layer/attention/self/query"


@pytest.mark.parametrize(("name", "typed"), [
    (LONG, f"--input {LONG}=1x4x8"), ("x y", "--input 'x y=1x4x8'"), ("$x", "--input '$x=1x4x8'"),
    ("a" * 1400, f"--input {'a' * 1400}=1x4x8")])
def test_names_that_are_to_be_typed_are_whole_and_quoted(name: str, typed: str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "long.onnx", [node("MatMul", [name, "w"], ["y"])], {name: (None, 4, 8)}, {"w": (8, 8)})
    with pytest.raises(ProblemError) as asked:
        read_onnx(path)
    assert str(asked.value).endswith(f" is unknown: give {typed}")
    assert f"the shape of {name!r:.56}" in str(asked.value)
    assert str(asked.value).count("'") % 2 == 0
    with pytest.raises(ProblemError, match="it has ") as refused:
        read_onnx(path, {"z": (1,)})
    assert str(refused.value).endswith(f"it has {name!r}")
    assert len(read_onnx(path, input_sizes([*shlex.split(typed)[1:]])).nodes) == 1


@pytest.mark.parametrize(("operator", "reason"), [
    ("CausalConvWithState", "a causal convolution"), ("LinearAttention", "linear attention"),
    ("GroupedMatMul", "a grouped product"), ("FlexAttention", "attention"), ("QLinearConv", "a quantized convolution"),
    ("DeformConv", "a deformable convolution"), ("MatMulInteger", "a quantized product"), ("GRU", "a recurrent layer"),
    ("AffineGrid", "a function with MatMul"), ("Upsample", ""), ("RotaryEmbedding", ""), ("TensorScatter", ""),
    ("Softmax", ""), ("LRN", ""), ("Scan", ""), ("Convert", f"onnx {onnx.__version__} does not know it; it may hold "
                                                           "products")])
def test_operators_with_products_are_told_by_their_name_or_schema(operator: str, reason: str) -> None:
    assert products_in(operator) == reason


def test_sizes_that_a_model_computes_are_followed(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "reshaped.onnx", [
        node("Shape", ["x"], ["s"]), node("Constant", [], ["i"], value_int=0), node("Gather", ["s", "i"], ["n"]),
        node("Constant", [], ["rest"], value_ints=[-1]),
        node("Constant", [], ["axes"], value_ints=[0]), node("Unsqueeze", ["n", "axes"], ["first"]),
        node("Concat", ["first", "rest"], ["shape"], axis=0), node("Reshape", ["x", "shape"], ["f"]),
        node("MatMul", ["f", "w"], ["y"])], {"x": (None, 4, 5)}, {"w": (20, 8)})
    (found,) = read_onnx(path, {"x": (3, 4, 5)}).nodes
    assert found.problem == parse_problem("gemm m=3 n=8 k=20")


def test_weights_are_neither_parsed_nor_sought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_onnx(tmp_path / "large.onnx", [node("MatMul", ["x", "w"], ["y"])], {"x": (4, 1000)},
                      {"w": (1000, 100)})
    monkeypatch.setattr(onnx_file, "LARGEST_REST", 1000)
    (tensor,) = onnx_file.read_model(path).graph.initializer
    assert (list(tensor.dims), tensor.data_type, tensor.raw_data) == ([1000, 100], TensorProto.FLOAT, b"")
    save_model(load_model(path), tmp_path / "split.onnx", save_as_external_data=True, location="weights.bin")
    (tmp_path / "weights.bin").unlink()
    for name in ("large.onnx", "split.onnx"):
        (found,) = read_onnx(tmp_path / name).nodes
        assert found.problem == parse_problem("gemm m=4 n=100 k=1000")


def test_functions_that_call_each_other_twice_are_not_followed(tmp_path: Path) -> None:
    opset = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    functions = [helper.make_function("mine", f"f{level}", ["a"], ["b"], [
        node(f"f{level - 1}" if level else "Relu", [source], [result], domain="mine" if level else "")
        for source, result in (("a", "m"), ("m", "b"))], opset) for level in range(60)]
    began = time.monotonic()
    found = read_onnx(write_onnx(tmp_path / "bomb.onnx", [node("f59", ["x"], ["y"], domain="mine")], {"x": (1, 2)},
                                 functions=functions))
    assert [each.operator for each in found.undescribed] == ["mine.f59"]
    assert time.monotonic() - began < onnx_shapes.SECONDS / 2


@pytest.mark.parametrize(("content", "says"), [
    (b"", "it has no graph"), (b"problem,seconds\nconv2d,1\n", "is no ONNX file"),
    (b"\x3a\xff\xff\xff\xff\x0f", "middle of a field"), (b"\x08" + b"\xff" * 12, "number without an end"),
    (b"\x0b", "field of kind 3"), (b"\x08\x0a" + b"\x3a\x00" * 9, "no graph")])
def test_what_is_no_onnx_file_is_said_in_a_line(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises(FormatError, match=says):
        read_onnx(tmp_path / "odd.onnx")


@pytest.mark.parametrize(("bounds", "says"), [
    ({"MOST_PARTS": 5}, "or more than 5 nodes"), ({"LARGEST_REST": 100}, "beside its weights"),
    ({"LARGEST_FILE": 100}, "store its weights as external data"),
    ({"LARGEST_KEPT": 100, "MOST_TENSOR_FIELDS": 2}, "a tensor of more than 2 fields")])
def test_files_are_bounded(bounds: Mapping[str, int], says: str, tmp_path: Path,
                           monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_network(tmp_path / "network.onnx")
    for name, most in bounds.items():
        monkeypatch.setattr(onnx_file, name, most)
    with pytest.raises(FormatError, match=says):
        read_onnx(path)


@pytest.mark.parametrize(("program", "seconds", "says"), [
    ("import os\nos.abort()", 60.0, "ONNX's inference crashed"), ("import time\ntime.sleep(60)", 0.2, "within 0 s")])
def test_an_inference_that_crashes_or_hangs_is_a_line(program: str, seconds: float, says: str, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inference.py").write_text(program)
    monkeypatch.setattr(onnx_shapes, "__file__", str(tmp_path / "inference.py"))
    monkeypatch.setattr(onnx_shapes, "SECONDS", seconds)
    with pytest.raises(FormatError, match=says):
        read_onnx(write_network(tmp_path / "network.onnx"))


def test_a_sequence_is_an_image_of_one_row(tmp_path: Path) -> None:
    (found,) = one_node(tmp_path, "Conv", {"x": (2, 8, 50)}, {"w": (8, 1, 5)}, pads=[2, 2], strides=[2], group=8).nodes
    assert found.problem == parse_problem("conv2d n=2 c=8 h=1 w=50 k=8 r=1 s=5 pad_w=2 stride_w=2 groups=8")
