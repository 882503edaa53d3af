"""Parameters with fractions and booleans: conditions, sources, commands, versions and declarations."""

from __future__ import annotations

from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call_declaration import CallDeclaration, code_for
from seqtune.kernels.launches.command_declaration import CommandDeclaration
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace

LIBRARY = """name = "NAME"
[operations.NAME]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.called]
parameters = {share = SHARES, packed = [true, false], group = [1, 2]}
derived = {half = "share / 2"}
constraints = ["half * group < 1", "packed or share in (0.5, 1)"]
default = {packed = false}
[kernels.called.opencl]
text = "kernel void called(global const float *x, global float *y) {y[0] = share / 2 + PART;}"
entry = "called"
arguments = ["x", "y"]
global = ["n"]
defines = {PART = "half"}
[kernels.program]
parameters = {share = [0.5, 1e-07, 1], packed = [true, false]}
[kernels.program.command]
run = ["./run", "--share={share}", "{packed}"]
"""


def _kernel(folder: Path, name: str, shares: str = "[1.0, 0.5, 1, 1.5]") -> int:
    """Use the library of that name and return the version of its first kernel."""
    folder = folder / name
    folder.mkdir()
    (folder / "run").touch(mode=0o755)
    (folder / "library.toml").write_text(LIBRARY.replace("NAME", name).replace("SHARES", shares))
    use(read_library(folder / "library.toml"))
    return kernel(f"{name}.called").version


def test_fractions_and_booleans_are_numbers_in_conditions_sources_and_commands(tmp_path: Path) -> None:
    _kernel(tmp_path, "fraction")
    family, problem = kernel("fraction.called"), parse_problem("fraction n=8")
    device = Device("opencl:x", "opencl", "a", "b", max_work_group=1024)
    space = SearchSpace(family, problem, device)
    valid = {(share, packed, group) for share in ("0.5", "1.0", "1", "1.5") for packed in (True, False)
             for group in (1, 2) if float(share) / 2 * group < 1 and (packed or float(share) in (0.5, 1))}
    assert {(repr(one["share"]), one["packed"], one["group"]) for one in space} == valid
    assert space.default.key == '{"share":1.0,"packed":false,"group":1}'
    call = code_for(family, "opencl")
    assert isinstance(call, CallDeclaration)
    assert call.call(problem, device, space.default).source.text.splitlines()[:4] == [
        "#define share 1.0", "#define packed 0", "#define group 1", "#define PART 0.5"]
    command = code_for(kernel("fraction.program"), "command")
    assert isinstance(command, CommandDeclaration)
    settings = [{"share": share, "packed": True} for share in (0.5, 1e-07, 1)]
    words = [command.command(problem, device, Configuration.of("fraction.program", each)).run for each in settings]
    assert words == [("./run", f"--share={share}", "1") for share in ("0.5", "1e-07", "1")]


def test_a_kernel_whose_words_became_fractions_has_another_version(tmp_path: Path) -> None:
    def version(folder: str, shares: str) -> int:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run").touch(mode=0o755)
        path = tmp_path / folder / "library.toml"
        path.write_text(LIBRARY.replace("NAME", "fraction").replace("SHARES", shares))
        return read_library(path).kernel("fraction.called").version

    words, fractions = version("words", '["0.5", "1.5"]'), version("fractions", "[0.5, 1.5]")
    assert words != fractions == version("more", "[0.5, 1.5, 2.5]")
