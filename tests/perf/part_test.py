# SPDX-License-Identifier: Apache-2.0
"""Each part of the bench prints when it is done; one that fails takes nothing from the others."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from perf.__main__ import Bench, part
from perf.nfs import BenchError
from perf.stats import Sample

pytestmark = pytest.mark.parallel


class Parts(Bench):
    """A bench without an engine: what its parts measure is given."""

    def __init__(self) -> None:
        self.rows, self.notes, self.data = [], [], {}

    def good(self) -> None:
        self.row("a function", Sample((40.0, 50.0, 60.0)), "cycles")

    def bad(self) -> None:
        self.row("begun", Sample((7.0,)), "cycles")
        raise BenchError("acl: 3 of 10 [packets] by its cache")


def test_what_was_measured_stays_when_a_part_fails() -> None:
    bench, text = Parts(), StringIO()
    console = Console(file=text, width=120)
    assert part("good", bench.good, bench, console)
    assert "a function" in text.getvalue() and "50.0 cycles" in text.getvalue()
    assert not part("bad", bench.bad, bench, console)
    printed = text.getvalue().split("bad ...")[1]
    assert "7.0 cycles" in printed and "a function" not in printed
    assert "bad: FAILED" in printed and "BenchError: acl: 3 of 10 [packets] by its cache" in printed
    assert list(bench.data) == ["a function", "begun", "bad: failed"]
