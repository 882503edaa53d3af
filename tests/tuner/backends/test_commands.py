"""Kernels that are programs: reports, limits, checksums, permission, and no process left behind."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import seqtune
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import LaunchError, TimeLimit
from seqtune.tuner.backends.command import backend as command
from seqtune.tuner.backends.command.executable import read_report
from seqtune.tuner.backends.command.programs import Programs
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.libraries.stencil import write
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux" or bool(command.unavailable()), reason="no programs here")
SH = "/bin/sh"
LIBRARY = """name = "tool"
[operations.work]
features = {n = "size"}
[kernels.shell]
parameters = {deed = ["good", "same", "other", "crash", "status", "hang", "chatty", "nan", "silent"], wait = [1, 2]}
[kernels.shell.command]
run = ["/bin/sh", "bench.sh", "{n}", "{deed}", "{wait}"]
timeout = 0.5
"""
SCRIPT = """case "$2" in
good) echo "a word before"; echo '{"seconds": 0.00'$3', "error": 1e-6}';;
same) echo '{"seconds": [0.001, 0.002], "checksum": 7.5}';;
other) echo '{"seconds": 0.001, "checksum": 8.5}';;
crash) kill -SEGV $$;;
status) echo "error: no such tile" >&2; exit 3;;
hang) sleep 60 & wait;;
chatty) while :; do echo "words words words words words words words words words words words words"; done;;
nan) echo '{"seconds": NaN, "error": 0}';;
silent) ;;
esac
"""


@pytest.mark.parametrize(("output", "message"), [
    (b"", "printed nothing"), (b"\n\n", "printed nothing"), (b"\xff\xfe", "not text"), (b"0.5", "no JSON object"),
    (b"done", "no JSON object: 'done'"), (b'{"seconds": 1,\n"error": 0\n}', "no JSON object: '}'"),
    (b"[" * 100_000, "no JSON object"), (b'{"error": 0}', 'no "seconds"'), (b'{"seconds": NaN}', "NaN is not JSON"),
    (b'{"seconds": Infinity}', "Infinity is not JSON"), (b'{"seconds": -1}', "-1.0 seconds; a time is above 0"),
    (b'{"seconds": 0}', "above 0"), (b'{"seconds": 1e999}', "too large"), (b'{"seconds": 1' + b"0" * 400 + b"}", "too"),
    (b'{"seconds": "fast"}', "no number"), (b'{"seconds": true}', "no number"), (b'{"seconds": []}', "0 times"),
    (b'{"seconds": [1, null]}', "no number"), (b'{"seconds": 1, "error": -1}', "at least 0"),
    (b'{"seconds": 1, "checksum": "a"}', "no number")])
def test_a_report_that_is_not_clear_is_refused_in_one_line(output: bytes, message: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        read_report(output)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


@pytest.fixture
def programs() -> Iterator[Programs]:
    opened = Programs()
    yield opened
    opened.close()
    assert not opened.private.exists()


def test_limits_hold(programs: Programs, tmp_path: Path) -> None:
    def run(script: str, seconds: float = 5.0, memory: int = 10**9) -> bytes:
        return programs.run((SH, "-c", script), tmp_path, seconds, memory).output

    assert run("pwd").decode().strip() == str(tmp_path)
    assert set(run("env").decode().split()) >= {"LC_ALL=C"}
    assert b"SECRET" not in run("env")
    with pytest.raises(TimeLimit, match=r"longer than 0\.2 s"):
        run("sleep 60 & sleep 60", 0.2)
    with pytest.raises(LaunchError, match="more than 64 kB"):
        run("while :; do echo 1234567890; done")
    begin = time.monotonic()
    script = "import sys; [sys.stderr.write(chr(88) * 10**6) for _ in range(10**6)]"
    with pytest.raises(LaunchError, match="more than 16 MB to standard error"):
        run(shlex.join((sys.executable, "-S", "-c", script)))
    assert run("sleep 60 & echo started") == b"started\n"  # its child holds the output open
    assert time.monotonic() - begin < 50  # a minute would mean that it waited for the child
    words = (sys.executable, "-S", "-c", "x = bytearray(2 * 10**9)")
    assert programs.run(words, tmp_path, 5.0, 10**9).code == 1
    with pytest.raises(LaunchError, match="cannot be run"):
        programs.run(("./missing",), tmp_path, 1.0, 10**9)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to a process of choice")
def test_a_child_in_a_session_of_its_own_is_killed_when_its_program_ends(programs: Programs, tmp_path: Path) -> None:
    script = "import os, subprocess; print(subprocess.Popen(['sleep', '900'], start_new_session=True, stdout=-3).pid)"
    result = programs.run((sys.executable, "-S", "-c", script), tmp_path, 20.0, 10**9)
    assert not psutil.pid_exists(int(result.output))


def test_a_kill_of_the_tuner_leaves_no_program_behind(tmp_path: Path) -> None:
    marker = f"8{os.getpid()}"  # seconds of sleep that nobody else asks for
    code = ("import pathlib; from seqtune.tuner.backends.command.programs import Programs; p = Programs();"
            "print(p.private, flush=True);"
            f"p.run(('/bin/sh', '-c', 'setsid sleep {marker} & sleep {marker} & sleep {marker}'), pathlib.Path('/'), "
            "900.0, 10**9)")
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert process.stdout is not None
    private = Path(process.stdout.readline().strip())

    def sleepers() -> list[int]:
        return [other.pid for other in psutil.process_iter(["cmdline"]) if other.info["cmdline"] == ["sleep", marker]]

    deadline = time.monotonic() + 30
    while len(sleepers()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    while (sleepers() or private.exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sleepers() == []
    assert not private.exists()


@pytest.fixture(scope="module")
def device() -> Device:
    return command.devices()[0]


def measured(device: Device, *deeds: str) -> list[Measurement]:
    configurations = [Configuration("tool.shell", (("deed", deed), ("wait", 1))) for deed in deeds]
    with Runner(device) as runner:
        return [measurement for _, measurement in runner.measure(parse_problem("work n=4"), configurations,
                                                                 Options(samples=2))]


def test_every_deed_of_a_program_is_recorded_and_the_search_goes_on(tmp_path: Path, device: Device) -> None:
    (tmp_path / "bench.sh").write_text(SCRIPT)
    seqtune.use_library(write(tmp_path, LIBRARY), allow_commands=True)
    deeds = ("good", "crash", "status", "hang", "chatty", "nan", "silent", "same", "good")
    results = measured(device, *deeds)
    assert [result.status for result in results] == [
        Status.CORRECT, *[Status.RUNTIME] * 2, Status.TIMEOUT, *[Status.RUNTIME] * 3, Status.CORRECTNESS,
        Status.CORRECT]
    assert results[0].samples == pytest.approx((0.001, 0.001))
    for result, words in zip(results[1:8], (
            "SIGSEGV", "status 3: error: no such tile", "longer than 0.5 s", "more than 64 kB", "NaN is not JSON",
            "printed nothing", "nothing to compare with: the default configuration reports none"), strict=True):
        assert words in result.message


def test_an_option_that_is_an_empty_word_is_no_argument(tmp_path: Path, device: Device) -> None:
    (tmp_path / "bench.sh").write_text("""echo '{"seconds": 0.00'$#', "error": 0}'""")
    seqtune.use_library(write(tmp_path, """name = "tool"
[operations.work]
features = {n = "size"}
[kernels.shell]
parameters = {flag = ["", "-x"]}
constraints = ["flag == '' or n > 1"]
default = {flag = ""}
[kernels.shell.command]
run = ["/bin/sh", "bench.sh", "{flag}", "{n}"]
"""), allow_commands=True)
    configurations = [Configuration("tool.shell", (("flag", flag),)) for flag in ("", "-x")]
    with Runner(device) as runner:
        without, with_flag = (measurement for _, measurement in runner.measure(
            parse_problem("work n=4"), configurations, Options(samples=1)))
    assert (without.status, without.seconds) == (Status.CORRECT, 0.001)
    assert (with_flag.status, with_flag.seconds) == (Status.CORRECT, 0.002)


def test_checksums_are_compared_with_the_default_configuration(tmp_path: Path, device: Device) -> None:
    (tmp_path / "bench.sh").write_text(SCRIPT)
    text = LIBRARY.replace('["good", "same"', '["same", "good"').replace("timeout", 'repeats = "theirs"\ntimeout')
    seqtune.use_library(write(tmp_path, text), allow_commands=True)
    same, other = measured(device, "same", "other")
    assert (same.status, same.samples) == (Status.CORRECT, (0.001, 0.002))
    assert other.status is Status.CORRECTNESS
    assert "checksum 8.5, expected 7.5" in other.message


def test_the_backend_itself_runs_no_command_that_is_not_allowed(tmp_path: Path, device: Device) -> None:
    (tmp_path / "bench.sh").write_text(SCRIPT)
    seqtune.use_library(write(tmp_path, LIBRARY))
    backend = command.CommandBackend(device)
    with pytest.raises(MisuseError, match="--allow-commands"):
        backend.build(parse_problem("work n=4"), kernel("tool.shell"),
                      Configuration("tool.shell", (("deed", "good"), ("wait", 1))))
    backend.close()
