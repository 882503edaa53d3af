"""The promises of everything that measures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqtune.data.record import Record, Status
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.measuring.timing import Options
from tests.support import planted


@pytest.fixture(scope="module", params=["runner", "replay"])
def measurer(request: pytest.FixtureRequest) -> Iterator[Measurer]:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        if request.param == "runner":
            yield runner
        else:
            trials = [planted.deed("good", number) for number in range(4)] + [planted.deed("wrong")]
            yield RecordedMeasurer(planted.DEVICE, [
                Record(planted.PROBLEM, planted.DEVICE.key, 1, configuration, planted.DEVICE.toolchain, measurement)
                for configuration, measurement in runner.measure(planted.PROBLEM, trials, Options())],
                [planted.KERNEL])


class TestMeasurer:
    def test_every_configuration_is_answered_in_order(self, measurer: Measurer) -> None:
        asked = [planted.deed("good", 2), planted.deed("wrong"), planted.deed("good", 0)]
        found = list(measurer.measure(planted.PROBLEM, asked, Options()))
        assert [configuration for configuration, _ in found] == asked
        assert [one.status for _, one in found] == [Status.CORRECT, Status.CORRECTNESS, Status.CORRECT]
        compared = measurer.compare(planted.PROBLEM, asked, 2, Options())
        assert [one.status for one in compared] == [one.status for _, one in found]

    def test_nothing_asked_nothing_answered(self, measurer: Measurer) -> None:
        assert list(measurer.measure(planted.PROBLEM, [], Options())) == []
        assert measurer.compare(planted.PROBLEM, [], 2, Options()) == []

    def test_what_cannot_be_measured_is_data_not_an_exception(self, measurer: Measurer) -> None:
        strange = planted.deed("good", 399)  # outside its space, and in no record
        ((_, found),) = measurer.measure(planted.PROBLEM, [strange], Options())
        assert found.status in (Status.CONSTRAINTS, Status.RUNTIME)
        assert found.message

    def test_closing_the_iterator_leaves_it_usable(self, measurer: Measurer) -> None:
        measuring = measurer.measure(planted.PROBLEM, [planted.deed("good", n) for n in range(4)], Options())
        next(measuring)
        measuring.close()
        ((_, found),) = measurer.measure(planted.PROBLEM, [planted.deed("good", 3)], Options())
        assert found.status is Status.CORRECT
