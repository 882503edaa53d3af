"""Configurations are compared by a fake measurer whose true times are known."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.compared_times import (
    FEWEST_ROUNDS,
    CompareOptions,
    compare_all,
    retest_log_share,
    store_compared_times,
)
from seqtune.tuner.measuring.timing import Options
from tests.support.paths import ROOT

PROBLEM = Problem.make("gemm", m=8, n=8, k=8)


def choice(number: int) -> Configuration:
    return Configuration.of("fake", {"number": number})


class Rounds:
    """Times = truth x luck of the build x outliers; `broken` maps (build, configuration) to a failure."""

    device = Device("fake", "fake", "fake", "fake")

    def __init__(self, truth: Sequence[float], luck: float = 0.0, outliers: float = 0.0,
                 broken: Mapping[tuple[int, Configuration], Status] | None = None) -> None:
        self.truth = {choice(number): seconds for number, seconds in enumerate(truth)}
        self.luck, self.outliers, self.broken = luck, outliers, broken or {}
        self.generator = np.random.default_rng(0)
        self.orders: list[list[Configuration]] = []
        self.rounds: list[int] = []
        self.seeds: list[int] = []

    def _samples(self, configuration: Configuration, count: int, scale: float = 1.0) -> tuple[float, ...]:
        slow = np.where(self.generator.random(count) < self.outliers, 10.0, 1.0)
        return tuple((self.truth[configuration] * scale * slow).tolist())

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            status = self.broken.get((-1, configuration), Status.CORRECT)
            yield configuration, Measurement(status, self._samples(configuration, options.samples))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        build = len(self.orders)
        self.orders.append(list(configurations))
        self.rounds.append(rounds)
        self.seeds.append(options.order_seed)
        return [Measurement(self.broken.get((build, configuration), Status.CORRECT), self._samples(
            configuration, rounds, math.exp(self.generator.normal(0, self.luck)))) for configuration in configurations]


def test_all_run_together_in_every_build_in_changing_orders() -> None:
    measurer = Rounds([1e-3, 1.5e-3, 2e-3, 1.1e-3])
    renewed: list[int] = []
    compared = compare_all(measurer, PROBLEM, [choice(number) for number in (0, 1, 2, 3, 1)],
                           renew=lambda: renewed.append(len(measurer.orders)))
    assert [set(order) for order in measurer.orders] == [set(measurer.truth)] * 3
    assert len({tuple(order) for order in measurer.orders}) > 1
    assert len(set(measurer.seeds)) == 3
    assert renewed == [1, 2], "every build but the first begins with a new worker"
    assert compared.seconds == pytest.approx(measurer.truth)
    assert compared.best == 1e-3
    assert compared.retest == 0.0


def test_disturbed_rounds_change_nothing() -> None:
    measurer = Rounds([1e-3, 1.2e-3], outliers=0.6)
    compared = compare_all(measurer, PROBLEM, list(measurer.truth), CompareOptions(rounds=15))
    assert compared.seconds == pytest.approx(measurer.truth)
    assert all(len(builds) == 3 for builds in compared.builds.values())


def test_what_is_much_slower_keeps_the_time_of_the_quick_look() -> None:
    measurer = Rounds([1e-3, 2.9e-3, 3.1e-3])
    compared = compare_all(measurer, PROBLEM, list(measurer.truth))
    assert {configuration for order in measurer.orders for configuration in order} == {choice(0), choice(1)}
    assert compared.seconds[choice(2)] == pytest.approx(3.1e-3)
    assert set(compared.builds) == {choice(0), choice(1)}


def test_a_kernel_that_only_its_first_look_found_slow_takes_part() -> None:
    """A new worker's first kernels meet a processor that is not awake yet."""
    class Cold(Rounds):
        looks = 0

        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            for configuration, measurement in super().measure(problem, configurations, options, best):
                self.looks += 1
                samples = tuple(4 * seconds for seconds in measurement.samples)
                yield configuration, replace(measurement, samples=samples) if self.looks == 1 else measurement

    measurer = Cold([1e-3, 1e-3])
    compared = compare_all(measurer, PROBLEM, list(measurer.truth))
    assert compared.seconds == {choice(0): 1e-3, choice(1): 1e-3}
    assert measurer.looks == 3


def test_one_lucky_build_changes_nothing() -> None:
    class Lucky(Rounds):
        def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                    options: Options) -> list[Measurement]:
            measurements = super().compare(problem, configurations, rounds, options)
            return [replace(measurement, samples=tuple(seconds / 2 for seconds in measurement.samples))
                    if len(self.orders) == 2 and configuration == choice(1) else measurement
                    for configuration, measurement in zip(configurations, measurements, strict=True)]

    assert compare_all(Lucky([1e-3, 1.2e-3]), PROBLEM, [choice(0), choice(1)]).seconds == {
        choice(0): 1e-3, choice(1): 1.2e-3}


def test_a_failure_in_any_build_is_infinite_and_ends_its_turns() -> None:
    measurer = Rounds([1e-3, 1e-3, 1e-3], broken={(-1, choice(0)): Status.COMPILE, (1, choice(1)): Status.CRASH})
    compared = compare_all(measurer, PROBLEM, list(measurer.truth))
    assert compared.seconds == {choice(0): math.inf, choice(1): math.inf, choice(2): 1e-3}
    assert compared.failures[choice(1)].status is Status.CRASH
    assert measurer.orders[2] == [choice(2)]


def test_the_builds_of_a_comparison_are_records_of_one_session(journal: Journal) -> None:
    measurer = Rounds([1e-3, 1.2e-3, 9.0, 1e-3], outliers=0.2, broken={(1, choice(3)): Status.CRASH})
    compared = compare_all(measurer, PROBLEM, list(measurer.truth))
    store_compared_times(journal, PROBLEM, measurer.device, {"fake": 1}, compared)
    records = list(journal.records(run="contest"))
    assert [record.configuration for record in records] == [choice(0)] * 3 + [choice(1)] * 3 + [choice(3)]
    assert [record.measurement.seconds for record in records] == pytest.approx([1e-3] * 3 + [1.2e-3] * 3 + [math.inf])
    assert len({record.session for record in records}) == 1
    assert [record.configuration for record in journal.records(run="look")] == list(measurer.truth)


def test_slow_kernels_run_in_fewer_rounds_and_large_ones_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    measurer = Rounds([1.0, 1.0])
    compare_all(measurer, PROBLEM, list(measurer.truth), CompareOptions(seconds=10.0))
    assert measurer.rounds == [FEWEST_ROUNDS] * 3
    large = Problem.make("gemm", m=1024, n=1024, k=1024)  # 12 MiB of matrices, 36 MiB with copies
    measurer = Rounds([1e-3] * 7)
    monkeypatch.setattr("seqtune.tuner.measuring.compared_times.GROUP_BYTES", 3 * 36 << 20)
    compare_all(measurer, large, list(measurer.truth), CompareOptions(builds=1))
    assert sorted(map(len, measurer.orders)) == [2, 2, 3]


def test_a_command_that_declares_no_tensor_is_compared() -> None:
    use(read_library(ROOT / "examples" / "blur"))
    measurer = Rounds([1e-3, 2e-3])
    blur = Problem.make("box_blur", rows=64, columns=64, radius=2)
    assert compare_all(measurer, blur, list(measurer.truth)).best == 1e-3


def test_the_ceiling_falls_with_the_luck_of_builds() -> None:
    shares = []
    for luck in (0.0, 0.01, 0.05):
        measurer = Rounds([1e-3 * (1 + 0.005 * number) for number in range(12)], luck)
        retest = compare_all(measurer, PROBLEM, list(measurer.truth)).retest
        assert retest is not None
        shares.append(retest)
    assert 0.0 == shares[0] > shares[1] > shares[2]
    assert retest_log_share(np.array([[1.0, 2.0], [2.0, 1.0]])) == pytest.approx(math.log(0.5))
    assert retest_log_share(np.array([[1.0, 2.0]])) is None
