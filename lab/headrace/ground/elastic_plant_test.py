# SPDX-License-Identifier: Apache-2.0
"""What an engine answers is looked at in windows, and each of them once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from headrace.engine.plan_compiler import Path
from headrace.engine.plan_document import Plan, PlanEngine, PlanInput, PlanLink, PlanSegment
from headrace.engine.running import RunningEngine
from headrace.ground.elastic_plant import ElasticEngine, SinkWindows
from headrace.ground.operable import Foresight

HZ = 1000  # ten cycles are a window


@dataclass
class AnsweringEngine:
    """An engine that answers, and remembers what it was asked."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    owners: list[int] = field(default_factory=lambda: [0] * 8)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def request(self, cmd: str, **more: Any) -> dict[str, Any]:
        self.asked.append((cmd, more))
        if cmd == "slices":
            rows = [row for row in self.rows if row[0] >= more["since"]]
            names = ("begin", "end", "packets", "p50_ns", "p99_ns", "max_ns")
            delays = {"sink-forward": {"columns": names, "queues": (rows,)}}
            return {
                "ok": True, "tsc": 0, "tsc_hz": HZ, "additions": 1, "columns": (), "segments": {},
                "delays": delays,
            }  # fmt: skip
        if cmd == "buckets":
            return {"ok": True, "owners": self.owners, "packets": [1] * len(self.owners)}
        if cmd == "move":
            for bucket in more["buckets"]:
                self.owners[bucket] = more["to"]
            return {"ok": True}
        return {"ok": True, "moves": [{"buckets": 4}]}


def elastic(answers: AnsweringEngine, at: list[int]) -> ElasticEngine:
    segment = PlanSegment(
        name="chain", cpus=(2,), elastic=3, inputs=(PlanInput(link="wire-forward", to="nat"),)
    )
    plan = Plan(
        engine=PlanEngine(), links={"x": PlanLink(type="ring")}, nfs={}, segments=(segment,)
    )
    return ElasticEngine(
        cast(RunningEngine, answers), plan, Path("forward"), (2, 3, 5), {}, print, at
    )


def slice_of(begin: int, p99_us: int) -> tuple[int, ...]:
    return begin, begin + 9, 5, 1, p99_us * 1000, p99_us * 1000


def test_each_window_is_judged_once() -> None:
    """The second window has 20 us. The third and the fourth are looked at together: the worse of
    them counts. In the fifth nothing came, though packets were due: they took longer than it."""
    answers = AnsweringEngine(
        [slice_of(100, 10), slice_of(110, 20), slice_of(121, 70), slice_of(130, 30)]
    )
    windows = SinkWindows(elastic(answers, [0]), HZ, anchor=100)
    assert windows.ends_at() == 110
    assert windows.p99_s(111, came=5) == pytest.approx(10e-6)
    assert windows.p99_s(121, came=5) == pytest.approx(20e-6) and windows.seen == 2
    assert windows.p99_s(141, came=9) == pytest.approx(70e-6) and windows.seen == 4
    assert windows.p99_s(151, came=3) == pytest.approx(0.01)
    assert windows.p99_s(161, came=0) == 0.0


def test_what_stays_on_its_lcore_is_not_touched() -> None:
    """Lcores 0, 1, 2 are CPUs 2, 3, 5. Of 0 and 1 the latter is given up for 2: the first replica
    stays where it is."""
    answers = AnsweringEngine()
    of = elastic(answers, [0, 1])
    assert of.use((0, 2)) == 4 and of.at == (0, 2)
    [(cmd, more)] = answers.asked
    assert cmd == "plan" and more["plan"]["segments"][0]["cpus"] == [2, 5]
    assert of.use((0, 2)) == 0 and len(answers.asked) == 1
    wanted = np.array([0, 2] * 4)
    assert of.move(wanted) == 4 and answers.owners == [0, 1] * 4  # the second replica is on lcore 2
    owners, _ = of.steered()
    assert (owners == wanted).all() and of.move(wanted) == 0


def test_the_mean_of_a_load_over_a_window() -> None:
    """By hand: a step from 1 to 3 in its middle, and a ramp."""
    steps = Foresight(np.array([0, 1, 1, 2.0]), np.array([1, 1, 3, 3.0]))
    assert steps.mean(0.5, 1.5) == pytest.approx(2)
    assert steps.mean(0, 1) == pytest.approx(1) and steps.mean(1.2, 1.4) == pytest.approx(3)
    ramp = Foresight(np.array([0, 10.0]), np.array([0, 100.0]))
    assert ramp.mean(2, 4) == pytest.approx(30) and ramp.mean(9, 11) == pytest.approx(97.5)
