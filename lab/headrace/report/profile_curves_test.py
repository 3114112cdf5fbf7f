# SPDX-License-Identifier: Apache-2.0
"""Known functions of a table's size, and what a PMU may have counted, as curves."""

from __future__ import annotations

import pytest

from headrace.report import profile_curves
from headrace.report.charts.curves import Lines
from headrace.report.document_model import Chart, Section, Table
from headrace.spec.base import MedianRange
from headrace.spec.profile import (
    Fit,
    PacketCost,
    Penalty,
    Profile,
    ProfilePoint,
    Settings,
    TablePoint,
    TableSweep,
)

MB = 1 << 20


def test_hits_in_the_last_level_by_hand() -> None:
    """One touched byte for each of the table: of 64 MB a cache of 2 MB misses 62/64 of all reads,
    one of 32 MB half of them."""
    curve = fitted(2 * MB, 32 * MB)
    assert profile_curves.llc_hits(curve, 64 * MB) == pytest.approx(1 - (32 / 64) / (62 / 64))
    assert profile_curves.llc_hits(curve, 16 * MB) == 1
    assert profile_curves.llc_hits(curve, 1 * MB) is None


def fitted(*sizes: int) -> Fit:
    levels = [Penalty(level=f"L{i}", size_bytes=size, cycles=10) for i, size in enumerate(sizes)]
    return Fit(base_cycles=50, bytes_per_entry=1, penalties=tuple(levels), points=())


def lines_of(sections: list[Section]) -> dict[str, Lines]:
    charts = {
        one.title: block for one in sections for block in one.blocks if isinstance(block, Chart)
    }
    return {name: one.picture for name, one in charts.items() if isinstance(one.picture, Lines)}


def profile() -> Profile:
    """One of a load balancer, as small as it can be."""
    once = MedianRange(median=1.0, min=1.0, max=1.0)
    cost = PacketCost(nf=once, rx=once, tx=once, loop=once, throughput_pps=once)
    points = [
        ProfilePoint(
            sweep="state",
            settings=Settings(state=state, rules=1, frame_bytes=64, burst=32, skew=0.0),
            cost=cost,
        )
        for state in (100, 1000)
    ]
    return Profile(
        nf="lb", params={}, created_at="2026-01-01T00:00:00Z", headrace="1", host="h", cpu=None,
        tsc_hz=2e9, hugepages=True, repetitions=1, points=tuple(points), fit=None, corun=(),
        pmu=None, pmu_absent="no PMU",
    )  # fmt: skip


def grown(pmu: bool) -> Profile:
    """2 Mpps on a TSC of 2 GHz: a packet of 100 cycles takes a tenth of the lcore."""
    several = tuple(
        TablePoint(
            rules=rules,
            table_bytes=rules * 100,
            cycles=MedianRange(median=cycles, min=cycles, max=cycles),
            utilisation=MedianRange(median=cycles / 1000, min=0, max=1),
            pmu={"loads_llc": 3.0, "loads_memory": 1.0} if pmu else None,
        )
        for rules, cycles in ((100, 100.0), (10_000, 400.0))
    )
    sweep = TableSweep(load_pps=2e6, points=several, fit=None, absent={"300000": "too large"})
    whole: Profile = profile().model_copy(update={"tables": sweep})
    return whole


def test_a_table_that_grows_is_drawn_with_what_a_pmu_counted() -> None:
    sections = list(profile_curves.table_sections(grown(pmu=True)))
    drawn = lines_of(sections)
    [cycles] = drawn["Cycles over the size of the tables"].series
    assert cycles.points == ((10_000, 100.0), (1_000_000, 400.0))
    [busy] = drawn["Utilisation over the size of the tables"].series
    assert busy.points == ((10_000, 0.1), (1_000_000, 0.4))
    [hits] = drawn["Hits in the last level over the size of the tables"].series
    assert (hits.name, hits.points) == ("PMU", ((10_000, 0.75), (1_000_000, 0.75)))
    table = sections[0].blocks[0]
    assert isinstance(table, Table)
    assert table.rows[0] == (100, 10_000, "100 (100–100)", 0.1, None, 0.75)
    assert "300000 rules were not measured: too large" in str(sections[0].blocks)


def test_without_a_pmu_and_a_model_no_hits_are_claimed() -> None:
    sections = list(profile_curves.table_sections(grown(pmu=False)))
    assert not any("Hits" in one.title for one in sections)
    assert list(profile_curves.table_sections(profile())) == []


def test_waits_over_state_are_shares_of_all_cycles() -> None:
    counted = {
        "cycles": 200.0, "stalled_l1_miss": 100.0, "stalled_l2_miss": 60.0, "stalled_l3_miss": 20.0,
    }  # fmt: skip
    plain = profile()
    states = [one for one in plain.points if one.sweep == "state"]
    assert list(profile_curves.state_pmu(plain, "flows")) == []
    with_pmu = tuple(one.model_copy(update={"pmu": counted}) for one in states)
    [section] = profile_curves.state_pmu(plain.model_copy(update={"points": with_pmu}), "flows")
    [drawn] = lines_of([section]).values()
    shares = {one.name: one.points[0][1] for one in drawn.series}
    assert shares == pytest.approx(
        {"waits for L2": 0.2, "waits for L3": 0.2, "waits for memory": 0.1}
    )
