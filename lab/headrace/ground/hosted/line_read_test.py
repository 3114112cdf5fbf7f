# SPDX-License-Identifier: Apache-2.0
"""Lines between the host's lcore and a VNF's, by a calibrator that is a function here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.engine.place import PlacedSegment, Placement
from headrace.errors import HeadraceError
from headrace.ground.hosted import line_read
from headrace.ground.hosted.line_read import LineBetween, line_between, pair_of, read_line
from headrace.record.facts import LineRead


@pytest.mark.parametrize(
    ("before", "behind", "line"),
    [
        (None, None, None),
        (76.0, 80.0, LineRead(78.0, 1.0)),
        (None, 80.0, LineRead(80.0, 1.0)),
        (76.0, 340.0, LineRead(76.0, 0.5)),  # the host moved a CPU
        (340.0, 76.0, LineRead(340.0, 0.5)),
    ],
)
def test_a_trial_between_looks_of_two_states_is_of_neither(
    before: float | None, behind: float | None, line: LineRead | None
) -> None:
    assert line_between(before, behind) == line


def placed(*lcores: tuple[int, ...]) -> Placement:
    segments = tuple(PlacedSegment(f"s{i}", (), cpus) for i, cpus in enumerate(lcores))
    return Placement(0, 0, segments, ())


def test_the_pair_is_the_sources_lcore_and_another_ones() -> None:
    assert pair_of(placed((0,), (2,), (1,))) == (0, 2)
    assert pair_of(placed((0,), (0,), (3,))) == (0, 3)
    assert pair_of(placed((0,), (0,))) is None


def test_a_line_costs_what_the_cheaper_way_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_read, "find_tool", lambda name, folder: Path("/calibrator"))
    asked: list[Sequence[str]] = []

    def run(tool: Path, arguments: Sequence[str], called: str) -> str:
        asked.append([tool.name, *arguments])
        ways = [{"from": 0, "to": 2, "modified": {"median": one}} for one in (91.0, 78.0)]
        return json.dumps({"transfer": ways})

    assert read_line((0, 2), run) == 78.0
    first = ["chrt", "-f", "1", "/calibrator", "--only", "transfer", "--cpus", "0,2"]
    assert asked == [first]

    def refused(tool: Path, arguments: Sequence[str], called: str) -> str:
        raise HeadraceError("chrt: failed to set pid 0's policy: Operation not permitted")

    assert read_line((0, 2), refused) is None


def test_looks_are_a_second_apart() -> None:
    """Trials of 0.6 s: the first one's end is too soon for a look, the second one sees the move."""
    now, lines, looked = [0.0], iter([78.0, 340.0, 341.0]), list[float]()

    def look(pair: tuple[int, int]) -> float:
        looked.append(now[0])
        return next(lines)

    between = LineBetween((0, 1), look, lambda: now[0])
    told = []
    for _ in range(4):
        between.begin()
        now[0] += 0.6
        told.append(between.end())
    one, moved, behind = LineRead(78.0, 1.0), LineRead(78.0, 0.5), LineRead(340.0, 1.0)
    assert told == [one, moved, behind, LineRead(340.5, 1.0)]
    assert looked == [0.0, 1.2, 2.4]
    assert LineBetween(None, look).end() is None
