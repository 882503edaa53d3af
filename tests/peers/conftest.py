"""The end of a run of `make test-peers`: the counts of every test, also of those that passed."""

from __future__ import annotations

import pytest

from tests.peers.verdicts import COUNTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts of each test with its seconds."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, text in report.user_properties:
                if name == COUNTS:
                    terminalreporter.write_line(f"{report.nodeid.rpartition('/')[2]} ({report.duration:.0f} s): {text}")
