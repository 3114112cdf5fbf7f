# SPDX-License-Identifier: Apache-2.0
"""Figures that are easily taken for another one: whose they are stands beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analyse.bottleneck import Pipe
from headrace.analyse.capacity import Part
from headrace.analyse.rules_engine import _limit_reached, _wider
from headrace.analyse.summary import functions_cycles, key_of, summarise
from headrace.analyse.units import rate_scale
from headrace.record.counters import Counters, NfReading, ReplicaReading
from headrace.record.rows import Result
from headrace.record.segments import Limit, Segment
from headrace.report.charts.pipe import _as_bar
from headrace.report.shown_testdata import on_terminal, render, reported


def of_two_functions(second: int) -> Counters:
    """The second function gets so many of 1000 packets on the wire."""
    nfs = {
        name: NfReading(type=name, packets_in=n, out={}, dropped={}, batches=n, cycles=0,
                        cycles_packets=0)
        for name, n in (("acl", 1000), ("lb", second))
    }  # fmt: skip
    chain = ReplicaReading(
        segment="acl+lb", index=0, cpu=1, packets_in=1000, inputs={"wire-forward": 1000}, nfs=nfs
    )
    return Counters(tsc_hz=1_000_000_000, workers=(), replicas=(chain,), rings={})


@pytest.mark.parametrize(("second", "cycles"), [(1000, 140.0), (250, 65.0), (2000, 240.0)])
def test_a_function_counts_by_the_packets_that_reach_it(
    measured: Result, second: int, cycles: float
) -> None:
    each = {"nf_cycles": {"acl": 40.0, "lb": 100.0}, "counters": of_two_functions(second)}
    result = measured.model_copy(update=each)
    assert functions_cycles(result) == pytest.approx(cycles)
    [summary] = summarise([result])
    assert summary.cycles is not None and summary.cycles.median == pytest.approx(cycles)


def test_a_load_both_ways_is_said_as_it_was_asked_for(measured: Result) -> None:
    fixed = {"goal": "fixed", "load_pps": 100_000.0}
    both = measured.model_copy(update={**fixed, "direction": "both"})
    one = measured.model_copy(update={**fixed, "load_pps": 50_000.0})
    assert key_of(both).goal_text == "fixed 2 x 50.0\u202fkpps"
    assert key_of(one).goal_text == "fixed 50.0\u202fkpps"


def test_what_a_part_can_carry_is_said_to_be_of_a_goal(tmp_path: Path, measured: Result) -> None:
    one = reported(tmp_path / "b", measured)
    assert f"{measured.execution}, {measured.goal}: " in on_terminal(one)
    assert f"<h3>{measured.execution}, {measured.goal}" in render(one)


def test_a_busy_part_that_can_carry_more_says_why() -> None:
    """100 % busy at 28.2 Mpps stood beside 32.6 that it can carry, both rightly."""
    part = Part(
        name="chain", role="chain", cpus=(2,), utilisation=1.0, burst=12.3, most_burst=32,
        capacity_pps=32.6e6,
    )  # fmt: skip
    at = Pipe(parts=(part,), throughput_pps=1e6, carried_pps=1e6, narrowest=None, headline="")

    def note(**changes: float) -> str:
        return _as_bar(part.model_copy(update=changes), at, rate_scale(1e6)).note

    assert note().endswith("100\u202f% busy, 12 of 32 a poll")
    assert note(burst=31.0).endswith("busy") and note(utilisation=0.5).endswith("busy")


def test_a_predicted_flow_is_not_called_measured(tmp_path: Path, measured: Result) -> None:
    for ground, word in (("measured", "measured"), ("predicted", "predicted")):
        page = render(reported(tmp_path / ground, measured.model_copy(update={"ground": ground})))
        assert f"the flow inside is what was {word}." in page


def test_small_bursts_are_why_cycles_at_little_load_are_more(
    tmp_path: Path, measured: Result
) -> None:
    assert measured.counters is not None
    replicas = [
        r.model_copy(update={"burst": 32, "polls": r.packets_in, "idle_polls": r.packets_in // 2})
        for r in measured.counters.replicas
    ]
    counters = measured.counters.model_copy(update={"replicas": tuple(replicas)})
    fixed = {"goal": "fixed", "load_pps": 1000.0, "counters": counters}
    text = on_terminal(reported(tmp_path / "small", measured, **fixed))
    assert "polls found 2.0 of at most 32 packets" in text
    full = [r.model_copy(update={"polls": r.packets_in // 32, "idle_polls": 0}) for r in replicas]
    counters = counters.model_copy(update={"replicas": tuple(full)})
    text = on_terminal(
        reported(tmp_path / "full", measured, goal="fixed", load_pps=1000.0, counters=counters)
    )
    assert "polls found" not in text


def hosted(*names: str) -> tuple[Segment, ...]:
    return tuple(
        Segment(name=name, cpus=(1,), nfs=("l2fwd",), role="chain", hosting="process")
        for name in names
    )


@pytest.mark.parametrize(
    ("vnfs", "fewer"), [(("vnf1.1",), False), (("vnf1.1", "vnf1.2"), True),
                        (("vnf1.1", "vnf2.1"), False)],
)  # fmt: skip
def test_what_the_deployment_has_already_is_no_remedy(
    measured: Result, vnfs: tuple[str, ...], fewer: bool
) -> None:
    limit = Limit(kind="switch", place="nic", gbps=1.0, used=1.0, crossings=2.0)
    at = measured.model_copy(update={"segments": hosted(*vnfs)})
    drawn = Pipe(parts=(), throughput_pps=1.0, carried_pps=1.0, narrowest=None, headline="")
    assert ("rtc" in _limit_reached(limit, at, drawn, "").remedy) == fewer


@pytest.mark.parametrize(
    ("segments", "key"), [(("nic", "vnf1.1"), "hosting.switch_gbps"), (("vnf1.1",), "`ports`")]
)
def test_a_switch_is_moved_by_a_key_that_is_read(
    measured: Result, segments: tuple[str, ...], key: str
) -> None:
    """With `network: sriov` no segment switches, and `hosting.switch_gbps` is refused."""
    limit = Limit(kind="switch", place="nic", gbps=1.0, used=1.0, crossings=2.0)
    at = measured.model_copy(update={"segments": hosted(*segments)})
    drawn = Pipe(parts=(), throughput_pps=1.0, carried_pps=1.0, narrowest=None, headline="")
    remedy = _limit_reached(limit, at, drawn, "").remedy
    assert key in remedy and (key == "hosting.switch_gbps") == ("switch_gbps" in remedy)


def test_a_chain_of_one_function_is_not_cut(measured: Result, tmp_path: Path) -> None:
    group = reported(tmp_path / "b", measured).groups[0]
    [part, *_] = [p for p in group.explained[0].pipe.parts if p.role == "chain"]
    assert "another cut" in _wider(part, measured)
    alone = Segment(name="acl", cpus=(1,), nfs=("acl",), role="chain")
    at = measured.model_copy(update={"segments": (alone,)})
    assert "another cut" not in _wider(part.model_copy(update={"nfs": ("acl",)}), at)
