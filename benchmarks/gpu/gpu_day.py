"""Spend a day with a GPU, in slices: `python -m benchmarks gpu_day --out gpu-day`.

Each slice is bounded in seconds and can be resumed: run the same command again, and it goes on where it stopped, also
after Ctrl-C, a crash or a kill. A slice that fails is reported, and the next one goes on. After every call the folder
`home` holds what is worth bringing home: a Parquet file of at most 16 MiB per GPU, and the results as JSON.

`--dry-run` goes through every step without a GPU: a stand-in answers instead of a device, kernels are really compiled
if the compiler is there, and everything that is written is marked as a dry run. `--device opencl:0` lets a CPU stand
for the GPU, with real measurements.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.common.program import OneLineParser, positive
from benchmarks.gpu.day import DRY_SIZES, Day, DayState, Sizes
from benchmarks.gpu.slices import SLICES, Slice
from benchmarks.gpu.stand_in import stand_in_of
from seqtune.errors import DeviceError, InterruptedTuning, MisuseError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device

DRY_DEVICE = "cuda:h200"  # whose facts a dry run uses


def device_of(name: str | None, dry: bool, present: bool = True) -> Device:
    """The device of the day: the first CUDA device if no name is given. Raises DeviceError.

    With `present` it must be in this machine.
    """
    from seqtune.tuner.backends.discovery import check_present, find

    if dry:
        backend, _, model = (name or DRY_DEVICE).partition(":")
        return stand_in_of(described(backend, model) or find(name or DRY_DEVICE))
    device = find(name or "cuda:0")
    try:
        if present:
            check_present(device)
    except DeviceError as error:
        raise DeviceError(f"{error}; --dry-run goes through every step without it") from None
    return device


def chosen(only: list[str] | None) -> list[Slice]:
    """The slices with these names, in the order of a day; None: all. Raises MisuseError."""
    names = [item.name for item in SLICES]
    for name in only or ():
        if name not in names:
            raise MisuseError(f"no slice {name!r:.40}; there are {', '.join(names)}")
    return [item for item in SLICES if only is None or item.name in only]


def run_slices(day: Day, state: DayState, slices: list[Slice], times: float, until: float) -> list[str]:
    """Run the slices that are not done, each within its time; return the names of those that failed.

    Raises InterruptedTuning on Ctrl-C, when the state of the slice in progress is stored.
    """
    failed = []
    for index, item in enumerate(slices):
        where = f"[{index + 1}/{len(slices)}] {item.name}"
        allowed = item.seconds * times - state.spent(item.name)
        if state.get(item.name) == "done":
            day.say(f"{where}: done before")
            continue
        if state.get(item.name) == "partial" and allowed <= 0:
            day.say(f"{where}: its time is used up; --times gives more")
            continue
        began = time.monotonic()
        if began >= until:
            day.say(f"{where}: no time left in this call; run it again to go on")
            continue
        day.deadline = min(until, began + max(allowed, 1.0))
        day.say(f"{where}: {item.meaning} (at most {day.deadline - began:.0f} s)")
        try:
            outcome = item.run(day)
        except KeyboardInterrupt:
            state.set(item.name, "partial", time.monotonic() - began, "stopped")
            raise InterruptedTuning(f"stopped in {item.name}; everything measured is kept; run again to go on"
                                    ) from None
        except UnavailableError as error:
            state.set(item.name, "skipped", time.monotonic() - began, str(error))
            day.say(f"{where}: skipped: {error}")
        except Exception as error:  # drivers, compilers and peers raise errors of their own; the next slice goes on
            message = one_line(error if isinstance(error, SeqtuneError) else f"{type(error).__name__}: {error}")
            state.set(item.name, "failed", time.monotonic() - began, message)
            day.say(f"{where}: FAILED: {message}")
            failed.append(item.name)
        else:
            day.write_result(item.name, outcome.result)
            ended = "failed" if outcome.failed else "done" if outcome.finished else "partial"
            if outcome.failed:
                failed.append(item.name)
            summary = f"{'dry run: ' if day.dry else ''}{outcome.summary}"
            state.set(item.name, ended, time.monotonic() - began, summary)
            day.say(f"{where}: {ended} in {time.monotonic() - began:.1f} s: {summary}")
    return failed


def reopen_peers(day: Day, state: DayState, slices: list[Slice]) -> None:
    """Let slices of peers that are done go on if they have compared fewer problems than are wanted now."""
    for item in slices:
        if item.program.startswith("contests.peers:") and state.get(item.name) == "done":
            compared = {row["problem"] for row in (day.result(item.name) or {}).get("rows", [])}
            if len(compared) < day.sizes.peer_problems:
                state.reopen(item.name)


@contextmanager
def stoppable() -> Iterator[None]:
    """Treat SIGTERM, with which `timeout` and job systems stop programs, like Ctrl-C."""
    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def factor(text: str) -> float:
    """Parse a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no number above 0")
    return value


def parser() -> argparse.ArgumentParser:
    """The options of the program."""
    listed = "\n".join(f"  {item.name:12} {item.seconds:4} s  {item.meaning}" for item in SLICES)
    options = OneLineParser(f"{__doc__}\nslices:\n{listed}")
    options.add_argument("--out", type=Path, default=Path("gpu-day"), metavar="FOLDER", help="the folder of the day")
    options.add_argument("--device", help="the device to measure on (default: cuda:0)")
    options.add_argument("--only", action="append", metavar="SLICE", help="run this slice alone; may be repeated")
    options.add_argument("--again", action="store_true", help="run the slices of --only although they are done")
    options.add_argument("--minutes", type=factor, help="end this call after so many minutes")
    options.add_argument("--times", type=factor, default=1.0, help="multiply every slice's seconds")
    options.add_argument("--dry-run", action="store_true", help="go through every step without a GPU")
    options.add_argument("--pause", type=factor, default=0.0, help=argparse.SUPPRESS)  # s of a stand-in's answer
    options.add_argument("--small", action="store_true", help="as few problems and configurations as a dry run has")
    options.add_argument("--shapes", type=positive, help=f"matrix products per type (default: {Sizes().shapes})")
    options.add_argument("--peer-problems", type=positive,
                         help=f"problems of each slice of peers (default: {Sizes().peer_problems}); more than were "
                              "compared let a slice go on that is done")
    options.add_argument("--libraries-only", action="store_true",
                         help="peers without torch.compile, whose autotuning takes half a minute a problem")
    options.add_argument("--check", type=Path, metavar="FILE", help="only say whether a data set may be shipped")
    options.add_argument("--bring-home", action="store_true", help="only write the folder `home` again")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from dataclasses import replace

    from benchmarks.gpu.home import bring_home, check_shippable

    given = parser().parse_args(arguments)
    if given.check is not None:
        print(f"{given.check}: {check_shippable(given.check)}")
        return
    slices = chosen(given.only)
    if given.again and given.only is None:
        raise MisuseError("--again is for slices named with --only")
    sizes = DRY_SIZES if given.dry_run or given.small else Sizes()
    if given.shapes is not None:
        sizes = replace(sizes, shapes=given.shapes)
    if given.peer_problems is not None:
        sizes = replace(sizes, peer_problems=given.peer_problems)
    if given.libraries_only:
        sizes = replace(sizes, compiled_peers=False)
    present = not given.bring_home and any(item.measures for item in slices)
    day = Day(given.out, device_of(given.device, given.dry_run, present), given.dry_run, sizes, pause=given.pause)
    until = time.monotonic() + (60 * given.minutes if given.minutes else 1e9)
    failed: list[str] = []
    with stoppable(), day.held():
        state = DayState(day)
        if given.again:
            for item in slices:
                state.forget(item.name)
                day.path("results", f"{item.name}.json").unlink(missing_ok=True)
        try:
            if not given.bring_home:
                restore_all(day)
                if given.peer_problems is not None:
                    reopen_peers(day, state, slices)
                failed = run_slices(day, state, slices, given.times, until)
        finally:
            for line in bring_home(day):
                day.say(line)
    if failed:
        raise SeqtuneError(f"{len(failed)} of {len(slices)} slices failed: {', '.join(failed)}; run again to try them")
    skipped = [item.name for item in slices if state.get(item.name) == "skipped"]
    if skipped and given.only and not given.bring_home:  # a whole day goes on without the tools that a machine lacks
        raise UnavailableError(f"skipped, although named with --only: {', '.join(skipped)}; the reasons stand above")


def restore_all(day: Day) -> None:
    """Fill journals that are missing from the files in `home`, so that a brought-home folder can be continued."""
    from benchmarks.gpu.home import restore

    for line in restore(day):
        day.say(line)
