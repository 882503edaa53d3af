from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from seqtune.errors import FormatError, ProblemError, SeqtuneWarning
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.from_torch import from_module
from seqtune.kernels.problem_sets.parse import (
    LARGEST_FILE,
    ProblemLine,
    parse_problem,
    problem_set,
    read_lines,
    read_problems,
)

C2 = Problem.make("conv2d", c=64, h=56, w=56, k=64, r=3, s=3, pad_h=1, pad_w=1)


@pytest.mark.parametrize(
    "form",
    [
        "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 stride=1",
        "n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 stride=1",
        "conv2d c=64 size=56 k=64 filter=3 pad=1",
        "CONV C=64 H=56 K=64 R=3 PAD=1",
        "conv2d c=64 h=56 k=64 r=3 pad=7 pad_h=1 pad_w=1",
        '{"type": "conv2d", "c": 64, "h": 56, "w": 56, "k": 64, "r": 3, "s": 3, "pad": 1}',
        '  {"c": 64, "size": 56, "k": 64, "filter": 3, "pad": 1, "bias": false}',
    ],
)
def test_many_forms_say_the_same_problem(form: str) -> None:
    assert parse_problem(form) == C2
    assert parse_problem([form]) == C2
    if not form.strip().startswith("{"):
        assert parse_problem(form.split()) == C2


def test_a_gemm_takes_yes_in_all_spellings() -> None:
    wanted = Problem.make("gemm", m=4, n=5, k=6, trans_a="yes", bias="yes", activation="relu")
    for yes in ("1", "yes", "true", "TRUE"):
        assert parse_problem(f"gemm m=4 n=5 k=6 trans_a={yes} bias={yes} relu={yes}") == wanted
        assert parse_problem(f"gemm m=4 n=5 k=6 trans_a={yes} bias={yes} activation=relu") == wanted
    assert parse_problem("m=4 n=5 k=6 trans_a=0 relu=no") == Problem.make("gemm", m=4, n=5, k=6)


def test_a_feature_may_be_unknown() -> None:
    for text in ("unknown", "?", "UNKNOWN"):
        assert parse_problem(f"conv2d c=64 h={text} w=56 k=64 r=3 pad=1")["h"] is None
        assert parse_problem(f"gemm m={text} n=3 k=4 bias=?").features[0] == ("m", None)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("", "no problem given"),
        ("conv3d c=3", "no problem type"),
        ("conv2d c", "not name=value"),
        ("conv2d c=", "not name=value"),
        ("conv2d c=64 c=3", "given twice"),
        ("conv2d c=sixty h=56 k=64 r=3", "c=sixty is not a whole number"),
        ("conv2d c=64 h=-56 k=64 r=3", "h=-56 is outside"),
        ("conv2d c=64 h=56 k=64 r=3 stride=0", "stride_h=0"),
        ("conv2d c=64 h=56 k=64", "needs r"),
        ("conv2d c=64 h=56 k=64 r=3 colour=1", "no feature 'colour'"),
        ("n=3", "cannot tell the type"),
        ("gemm m=4 n=4 k=4 trans_a=maybe", "trans_a=maybe is not one of no, yes"),
        ("conv2d 'c=3", "cannot split"),
        ('{"type": "conv2d"', "not JSON"),
        ('{"type": 3}', "is a word"),
        ('{"type": "gemm", "m": [1], "n": 1, "k": 1}', "number, a word or null"),
        ("gemm m=" + "9" * 400 + " n=1 k=1", "whole number|outside"),
        ("gemm m=3 n=4 k=5 " + "x" * 200_000, "too long"),
        ("conv2d c=64 h=56 k=64 r=3 pad=?x", "not a whole number"),
    ],
)
def test_a_bad_form_is_refused_in_one_line(form: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as refusal:
        parse_problem(form)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def write(folder: Path, name: str, content: str | bytes) -> Path:
    place = folder / name
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def test_csv_and_text_files_hold_many_problems_once_each(tmp_path: Path) -> None:
    table = write(
        tmp_path,
        "a.csv",
        "\ufeffName,type,c,H,k,r,pad,m,n,count\nfirst,conv2d,64,56,64,3,1,,,7\n\n"
        "again,conv2d,64,56,64,3,1,,1,2\nlast,gemm,,,3,,,1,2,\n",
    )
    assert list(read_problems(table)) == [C2, Problem.make("gemm", m=1, n=2, k=3)]
    lines = write(
        tmp_path, "a.txt", f"# layers\n{C2.key}  # the second\n\n" + '{"type":"gemm","m":1,"n":2,"k":3}\n'
    )
    assert list(read_problems(lines)) == [C2, Problem.make("gemm", m=1, n=2, k=3)]
    assert problem_set(table) == problem_set(str(table)) == list(read_problems(table))


@pytest.mark.parametrize("text", [
    "\ufeffm;n;k\r\n64;128;32\r\n\r\n", "m\tn\tk\n64\t128\t32\n", "m,n,k\n64.0,128.00,3.2e1\n",
    "m|n|k\n64|128|32\n", 'name,m,n,k\r"a\rb",64,128,32\r',
    "m;n;k;\n64,0;128;32;\n", "sep=;\r\nm;n;k\r\n64;128;32\r\n", 'm,n,k\n"64",128,32\n'])
def test_a_table_may_be_a_spreadsheets(tmp_path: Path, text: str) -> None:
    assert list(read_problems(write(tmp_path, "a.csv", text))) == [Problem.make("gemm", m=64, n=128, k=32)]


def test_a_decimal_comma_is_read_where_it_cannot_divide_thousands(tmp_path: Path) -> None:
    (problem,) = read_problems(write(tmp_path, "a.csv", "m;n;k;tolerance\n64;128;32;0,001\n"))
    assert problem["tolerance"] == 0.001
    with pytest.raises(FormatError, match=r"a.csv:2: '1,024' may be in thousands .*; write 1024 or 1.024"):
        read_problems(write(tmp_path, "a.csv", "m;n;k\n1,024;128;32\n"))


def test_columns_of_labels_stand_beside_the_problems_and_a_warning_names_them(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", "name,layer,where,m,n,k,count\nfirst,3,front,64,128,32,7\nfirst,,,64,128,32,7\n"
                                     "first,3,front,64,128,32,9\n")
    with pytest.warns(SeqtuneWarning, match="columns that name no feature are labels: 'layer', 'where'"):
        lines = read_lines(table)
    product = Problem.make("gemm", m=64, n=128, k=32)
    assert lines == [ProblemLine(product, 2, {"name": "first", "layer": "3", "where": "front"}, 7, "7"),
                     ProblemLine(product, 3, {"name": "first"}, 7, "7")]  # the last line says what the first one says
    with pytest.warns(SeqtuneWarning):
        assert read_problems(table) == problem_set(table) == [product]


def test_a_name_is_a_label_of_any_problem_and_other_columns_are_features_of_recorded_ones(tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", "type,name,layer,m,n,k\nrecorded,a,stem,1,,\ngemm,b,,1,2,3\n")
    with pytest.warns(SeqtuneWarning, match="are labels: 'layer'"):
        first, second = read_lines(table)
    assert (first.problem, first.labels) == (Problem.make("recorded", layer="stem", m=1), {"name": "a"})
    assert (second.problem, second.labels) == (Problem.make("gemm", m=1, n=2, k=3), {"name": "b"})


@pytest.mark.parametrize(("header", "cell", "near"), [
    ("padding", "1", "pad"), ("strides", "2", "stride"), ("pading", "1", "pad"), ("kernel_size", "3", "filter"),
    ("batch", "8", "n"), ("dtyp", "fp16", "dtype"), ("layuot", "NHWC", "layout"), ("kk", "3", "k")])
def test_a_misspelt_feature_is_no_label(tmp_path: Path, header: str, cell: str, near: str) -> None:
    with pytest.raises(FormatError, match=f"a.csv:2: conv2d has no feature '{header}'; did you mean {near}\\?"):
        read_problems(write(tmp_path, "a.csv", f"c,h,k,r,{header}\n3,8,4,3,{cell}\n"))
    with pytest.raises(ProblemError, match=f"no feature '{header}'; did you mean {near}\\?"):
        parse_problem(f"conv2d c=3 h=8 k=4 r=3 {header}={cell}")
    with pytest.raises(ProblemError, match=f"did you mean {near}\\?"):
        Problem.make("conv2d", c=3, h=8, w=8, k=4, r=3, s=3, **{header: cell})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "c,h,k,r\n", "holds no problem"),
        ("a.csv", "c,h,k\n3,8,4\n", "a.csv:2: .*needs r"),
        ("a.csv", "c,h,k,r\n3,8,4,3\n3,x,4,3\n", "a.csv:3: h=x"),
        ("a.csv", "c,h,k,r\n3,8,4\n", "a.csv:2: 3 cells under 4"),
        ("a.csv", "c,h,k,r,zip\n3,8,4,3,1\n", "a.csv:2: .*no feature 'zip'"),
        ("a.csv", "c,c\n1,2\n", "named twice"),
        ("a.csv", "m;n,k\n1;2,3\n", "a.csv:1: the column 'm;n' is several features; separate all columns by one of"),
        ("a.csv", "m n k\n1 2 3\n", "a.csv:1: the column 'm n k' is several features"),
        ("a.csv", b"c,h\n\xff\xfe,3\n", "not UTF-8"),
        ("a.csv", 'c,h\n"3,4\n', "not CSV"),
        ("a.csv", "type,m\npool,3\n", "a.csv:2: no operation"),
        ("a.txt", "\n# nothing\n", "holds no problem"),
        ("a.txt", "gemm m=1 n=2 k=3\ngemm m=1\n", "a.txt:2: gemm needs n"),
        ("a.txt", b"x" * (LARGEST_FILE + 1), "more than 10 MB"),
        ("a.txt", b"PAR1\x00\x9c\xff", "not UTF-8"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as refusal:
        read_problems(write(tmp_path, name, content))
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(FormatError, match="cannot read"):
            read_problems(place)
    for name in ("resnet19", "x" * 5000, "a\x00b"):
        with pytest.raises(ProblemError, match=r"no problem set and no file .*; the sets are resnet18"):
            problem_set(name)


def fake_conv(**change: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "in_channels": 64,
            "out_channels": 64,
            "kernel_size": (3, 3),
            "stride": 1,
            "padding": (1, 1),
            "dilation": 1,
            "groups": 1,
            "padding_mode": "zeros",
            "bias": None,
            **change,
        }
    )


def test_a_pytorch_convolution_is_a_problem() -> None:
    torch = pytest.importorskip("torch")
    conv = torch.nn.Conv2d(8, 16, (3, 5), stride=(1, 2), padding=(1, 2), dilation=(2, 1), groups=4).half()
    problem = from_module(conv, (2, 8, 20, 21), layout="NHWC")
    assert problem == Problem.make(
        "conv2d",
        n=2,
        c=8,
        h=20,
        w=21,
        k=16,
        r=3,
        s=5,
        pad_h=1,
        pad_w=2,
        stride_w=2,
        dilation_h=2,
        groups=4,
        bias="yes",
        dtype="fp16",
        layout="NHWC",
    )
    shape = conv.float()(torch.zeros(2, 8, 20, 21)).shape
    assert tuple(shape[2:]) == (problem.size("out_h"), problem.size("out_w"))
    same = torch.nn.Conv2d(8, 16, (3, 5), padding="same", dilation=2, bias=False)
    assert from_module(same, (8, 20, 21)) == parse_problem(
        "conv2d c=8 h=20 w=21 k=16 r=3 s=5 pad_h=2 pad_w=4 dilation=2"
    )
    valid = torch.nn.Conv2d(8, 16, 3, padding="valid", bias=False)
    assert from_module(valid, torch.zeros(1, 8, 20, 21).shape) == parse_problem("conv2d c=8 h=20 w=21 k=16 r=3")
    linear = torch.nn.Linear(32, 10)
    assert from_module(linear, (4, 5, 32)) == Problem.make("gemm", m=20, n=10, k=32, trans_b="yes", bias="yes")
    for other in (torch.nn.Conv1d(8, 8, 3), torch.nn.ConvTranspose2d(8, 8, 3), torch.nn.ReLU()):
        with pytest.raises(ProblemError):
            from_module(other, (1, 8, 20, 20))


@pytest.mark.parametrize(
    ("change", "shape", "message"),
    [
        ({"padding_mode": "reflect"}, (1, 64, 56, 56), "reflect"),
        ({}, (1, 32, 56, 56), "should be .batch, 64"),
        ({}, (56, 56), "does not fit"),
        ({"padding": "same", "kernel_size": (2, 2)}, (1, 64, 56, 56), "even 2x2"),
        ({"kernel_size": (3,)}, (1, 64, 56, 56), "kernel_size"),
        ({"weight": SimpleNamespace(dtype="torch.float64")}, (1, 64, 56, 56), "float64"),
    ],
)
def test_a_module_that_cannot_be_described_is_refused(
    change: dict[str, object], shape: tuple[int, ...], message: str
) -> None:
    assert from_module(fake_conv(), (1, 64, 56, 56)) == C2
    with pytest.raises(ProblemError, match=message):
        from_module(fake_conv(**change), shape)


def test_a_linear_layer_needs_its_features_last() -> None:
    with pytest.raises(ProblemError, match="does not end in 32"):
        from_module(SimpleNamespace(in_features=32, out_features=3), (4, 31))
    with pytest.raises(ProblemError, match="not a Linear"):
        from_module(SimpleNamespace(in_features=32), (4, 32))
    with pytest.raises(ProblemError, match="no layer that is known"):
        from_module(object(), (4, 31))
