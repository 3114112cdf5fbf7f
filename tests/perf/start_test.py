# SPDX-License-Identifier: Apache-2.0
"""Whose a start's figure is, and what path it is of: the bench says so, or refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perf import start
from perf.engine import Load
from perf.nfs import BenchError
from perf.stats import within

pytestmark = pytest.mark.parallel

HZ = 2_000_000_000
PACKETS = 1_000_000


def reading(
    packets: int,
    full: int = 0,
    cycles: float = 100.0,
    polls: int = 0,
    clock: float = 1.0,
    stood: float = 0.0,
) -> dict[str, Any]:
    nf = {"cycles": 20 * packets, "cycles_packets": packets}
    acl = {"permitted": packets, "cache-hits": packets, "cache-misses": 0}
    pace = {
        "additions": packets,
        "cycles": int(packets / clock),
        "wide_cycles": int(packets / clock),
        "standstill_cycles": int(stood * cycles * packets),
    }
    chain = {
        "cpu": 1,
        "in": packets,
        "polls": polls or packets // 32,
        "idle_polls": 0,
        "io": {"rx_cycles": 30 * packets, "tx_cycles": 3 * packets, "packets": packets},
        "nfs": {
            "acl": nf | {"counters": acl},
            "lb": nf | {"counters": {"hits": packets}},
            "l3fwd": nf,
        },
    }
    wire = {"packets": packets, "full": full}
    return {
        "tsc": int(cycles * packets),
        "tsc_hz": HZ,
        "workers": {"1": {"pace": pace}},
        "segments": {"generator": [{"outputs": {"wire": wire}}], "chain": [chain]},
    }


def one(full: int = PACKETS, transfer: float = 200.0, **changes: Any) -> start.Start:
    return start.Start(Load(reading(0), reading(PACKETS, full, **changes)), (transfer, transfer))


def test_a_start_whose_wire_turned_nothing_away_is_the_generators() -> None:
    starts = [one(), one(full=0, polls=PACKETS // 8), one(cycles=103.0)]
    assert [s.of_the_chain for s in starts] == [True, False, True]
    lines = start.about("flow cache hit", starts)
    assert "1 of 3 starts were the generator's" in lines[0] and "8.0-8.0 packets a poll" in lines[0]
    assert "of the chain's 2 starts 2 lie within 5%" in lines[1] and len(lines) == 2


def test_clock_and_standing_still_are_taken_off() -> None:
    fast, stood = one(cycles=80.0, clock=1.25), one(cycles=200.0, stood=0.5)
    assert fast.own == pytest.approx(100) and stood.own == pytest.approx(100)
    [line] = start.about("flow cache hit", [one(), fast, stood])
    assert "3 starts 1 lie within 5% of each other by the TSC" in line
    assert line.endswith("and 3 in the lcore's own cycles without standing still")


def test_of_a_start_apart_the_state_that_differs_is_named() -> None:
    lines = start.about(
        "flow cache hit", [one(), one(), one(transfer=350, cycles=130), one(cycles=140)]
    )
    assert lines[0].endswith("and 2 in the lcore's own cycles without standing still. The others:")
    assert "130.0 own cycles: transfer of a line before 350.0 cycles, usually 200.0" in lines[1]
    assert lines[2].strip() == "140.0 own cycles: no state looked at differs"


def test_a_figure_is_refused_that_is_of_another_path() -> None:
    assert start.check_path("flow cache hit", one()) == 1.0
    with pytest.raises(BenchError, match='"classification": of 1000000 packets 1000000 were'):
        start.check_path("classification", one())
    counters = {"permitted": 100, "cache-hits": 60, "cache-misses": 40}
    with pytest.raises(BenchError, match="100 were looked up in its flow cache, and 60 found"):
        start.check_acl("flow cache hit", counters)
    aside = {"permitted": 1000, "cache-hits": 30, "cache-misses": 0}
    with pytest.raises(BenchError, match="30 were looked up"):
        start.check_acl("flow cache hit", aside)


def test_starts_are_told_by_the_state_of_the_machine() -> None:
    """Lcores were near to each other, and far: one range over both said that 3 of 6 lie close."""
    near = [one(cycles=c, transfer=78) for c in (100, 102, 104)]
    far = [one(cycles=c, transfer=338) for c in (140, 143)]
    moved = replace(near[0], transfer=(78, 338))
    told = start.by_state("classification", [*near, *far, moved])
    assert [line.partition(":")[0] for line in told] == ["classification"] * 3
    assert "3 starts where a line took 78 cycles: 3 within 5%" in told[0]
    assert "(100.0-104.0, median 102.0)" in told[0] and told[0].endswith("3 by the TSC")
    assert "2 starts where a line took 338 cycles: 2 within 5%" in told[1]
    assert told[2].endswith(": 1 starts during which the host moved the lcores")


def test_starts_of_earlier_turns_count(tmp_path: Path) -> None:
    """A bench of 40 starts takes longer than a shared machine is left to one: of an engine that has
    changed meanwhile none count."""
    binary, file = tmp_path / "engine", tmp_path / "starts.json"
    binary.write_bytes(b"one")
    names = ["empty", "classification"]
    assert start.kept(None, binary, names) == start.kept(file, binary, names)
    starts = {"empty": [], "classification": [one(), one(cycles=140, transfer=338)]}
    start.keep(file, binary, starts)
    assert start.kept(file, binary, names) == starts
    binary.write_bytes(b"another")
    with pytest.raises(BenchError, match="starts are of another engine"):
        start.kept(file, binary, names)


def test_most_values_within_a_share_of_each_other() -> None:
    assert within([100.0, 90.0, 104.0, 105.0, 106.0], 0.05) == {0, 2, 3}
