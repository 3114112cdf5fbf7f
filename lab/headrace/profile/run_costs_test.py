# SPDX-License-Identifier: Apache-2.0
"""Costs taken from runs on a server whose costs are known: it is a described one, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.ground.simulated.ground import SimulatedDeployed, SimulatedGround
from headrace.profile import run_costs
from headrace.profile.run_costs import robust, taken_from, why_not, with_figures
from headrace.profile.run_parts import RunTrial, pauses_of
from headrace.record.counters import Counters, OutputReading, ReplicaReading, WorkerReading
from headrace.record.rows import Result
from headrace.spec import document
from headrace.spec.described import DescribedServer, figures_of
from headrace.spec.round_testdata import read_round, round_server
from headrace.spec.study import expand

COSTS = (
    "{base: [BASE, x], rx: [20, x], rx_known: [8, x], tx: [10, x], hand_over: [15, x], "
    "known_over: [12, x], sent_over: [6, x], loop: [5, x], poll: [90, x], poll_near: [40, x]}"
)
SERVER = round_server(
    f"  acl: {COSTS.replace('BASE', '50')}\n  l2fwd: {COSTS.replace('BASE', '25')}"
).replace("idle: [10, x]}", "idle: [10, x], poll: [60, x], source_back: [7, x]}")
WAYS = (
    ("[acl]", "[[acl]]", "[[0]]", "[0]"),
    ("[acl]", "[[acl]]", "[[1]]", "[0]"),
    ("[acl]", "[[acl]]", "[[1]]", "[0, 1]"),
    ("[l2fwd]", "[[l2fwd]]", "[[0]]", "[0]"),
    ("[l2fwd]", "[[l2fwd]]", "[[1]]", "[0]"),
    ("[acl, l2fwd]", "[[acl], [l2fwd]]", "[[0], [1]]", "[0]"),
    ("[l2fwd, acl]", "[[l2fwd], [acl]]", "[[1], [0]]", "[0, 1]"),
)
# Another pair than those that are run.
UNSEEN = ("[acl, l2fwd]", "[[acl, l2fwd]]", "[[1]]", "[0]")


def trial(start: DescribedServer, truth: DescribedServer, way: Any, load: float) -> RunTrial:
    """What the true server counts; the model is told it as of the described one."""
    chain, segments, lcores, traffic = way
    doc = document.parse(
        f"name: one\nchain: {chain}\ndeployment:\n  execution: {{name: e, segments: {segments}, "
        f"lcores: {lcores}}}\n  lcores: {{traffic: {traffic}, shared: true}}\n",
        Path("one.yaml"),
    )
    [one] = expand(doc)
    here, there = (
        SimulatedGround(server, server, "events").inline_point(one, doc)
        for server in (start, truth)
    )
    deployed = SimulatedDeployed(there)
    deployed.start(there.offers[0], load, 0.1)
    [observation] = deployed.read()
    figures = observation.figures
    told = SimpleNamespace(
        counters=figures.counters, goal="fixed" if load else "max", load_pps=load,
        sent=figures.sent, duration_s=0.1, latency_ns=None, loss_ratio=0.0,
    )  # fmt: skip
    return RunTrial("one", here, cast(Result, told), None)


def trials(start: DescribedServer, truth: DescribedServer) -> Iterator[RunTrial]:
    for way in WAYS:
        for load in (0.0, 1e6):
            yield trial(start, truth, way, load)


def other(server: DescribedServer) -> DescribedServer:
    """One whose costs are up to half as many more, or a third fewer, each by another part."""
    paths = [p for p, one in figures_of(server) if p.startswith(("functions", "traffic"))]
    values = dict(figures_of(server))
    return with_figures(server, {
        path: {"value": values[path].value * (0.67 + 0.83 * (i * 7 % len(paths)) / len(paths))}
        for i, path in enumerate(paths)
    })  # fmt: skip


def most_off(server: DescribedServer, known: RunTrial) -> float:
    return max(abs(one.error) for one in known.busy(server))


def test_what_was_counted_is_said_and_what_was_not_run_is_predicted(tmp_path: Path) -> None:
    start = read_round(tmp_path, SERVER)
    truth = other(start)
    runs = list(trials(start, truth))
    assert max(most_off(start, one) for one in runs) > 0.2
    taken = taken_from(start, runs)
    assert max(most_off(taken, one) for one in runs) < 0.01
    unseen = trial(start, truth, UNSEEN, 0.0)
    assert most_off(taken, unseen) < min(0.05, most_off(start, unseen) / 2)


def test_a_trial_of_another_state_does_not_move_the_rest(tmp_path: Path) -> None:
    """Two were run again while the host had an lcore elsewhere: all took three times as long."""
    start = read_round(tmp_path, SERVER)
    truth = other(start)
    runs = list(trials(start, truth))
    slow = with_figures(truth, {
        path: {"value": 3 * one.value}
        for path, one in figures_of(truth)
        if path.startswith(("functions", "traffic"))
    })  # fmt: skip
    taken = taken_from(start, [*runs, *list(trials(start, slow))[2:4]])
    assert max(most_off(taken, one) for one in runs) < 0.1


@pytest.mark.parametrize("error", [0.01, -0.05])
def test_small_errors_count_by_their_squares(error: float) -> None:
    assert robust(error) == error


def test_large_errors_count_by_how_far_they_are() -> None:
    assert robust(0.8) ** 2 - robust(0.6) ** 2 == pytest.approx(robust(0.4) ** 2 - robust(0.2) ** 2)
    assert robust(-0.8) == -robust(0.8)


HOSTING = """\
hosting:
  {switch: [30, x], take: [40, x], give: [25, x], vnf_take: [35, x], vnf_give: [15, x],
   far: [60, x], own: [20, x], copy_kib: [64, x], far_kib: [128, x], own_kib: [256, x],
   vnf_own_kib: [512, x], reach: [3, x], poll: [64, x], vnf_poll: [48, x], idle: [20, x],
   vnf_idle: [2, x], pause: [5, x], slice_us: [100, x], change_us: [0, x],
   wake_us: [5, x], rouse_us: [1, x]}
"""


def reading(segment: str, cpu: int, packets: int, polls: int, **more: Any) -> ReplicaReading:
    """So many packets in so many polls, and as many more polls in vain."""
    return ReplicaReading(
        segment=segment, index=0, cpu=cpu, packets_in=packets, polls=2 * polls, idle_polls=polls,
        ops_cycles=1, **more,
    )  # fmt: skip


def hosted(tmp_path: Path, network: str = "veb") -> tuple[RunTrial, DescribedServer]:
    """Two processes: 3,200 packets of 100 polls of the source, and links with room for 2,000."""
    text = round_server("  l2fwd: {base: [50, x], rx: [20, x], tx: [10, x], hand_over: [15, x], "
                        "loop: [5, x], poll: [0, x]}") + HOSTING  # fmt: skip
    server = read_round(tmp_path, text)
    doc = document.parse(
        "name: two\nchain: [l2fwd]\ndeployment:\n  hosting: {kind: process, wait: poll, chains: 2}"
        f"\n  network: {network}\n  lcores: {{traffic: [0], chain: [1]}}\n",
        Path("two.yaml"),
    )
    [one] = expand(doc)
    wire = "wire-forward" if network == "veb" else "down"
    outside = [reading("outside", 0, 5_200, 100)] if network == "vepa" else []
    point = SimulatedGround(server, server, "events").hosted_point(one, doc)
    counters = Counters(
        tsc_hz=1_000_000_000,
        workers=(WorkerReading(cpu=0, ref_cycles=10_000_000, ops_cycles=1_000_000,
                               gaps=((8, 80_000), (2, 60_000))),
                 WorkerReading(cpu=1, ref_cycles=10_000_000, ops_cycles=1_000_000)),
        replicas=(
            reading("generator", 0, 3_200, 100),
            reading("nic", 0, 5_200, 150, inputs={wire: 3_200, "vf1": 900, "vf2": 1_100},
                    outputs={"vf1": OutputReading(full=700), "vf2": OutputReading(full=500),
                             "up": OutputReading(full=90 if outside else 0)}),
            reading("vnf1.1", 1, 900, 40), reading("vnf2.1", 1, 1_100, 60),
            reading("sink", 0, 2_000, 90), *outside,
        ),
    )  # fmt: skip
    told = SimpleNamespace(
        counters=counters, goal="fixed", load_pps=1e6, sent=3_200, duration_s=0.01,
        latency_ns=None, loss_ratio=0.0,
    )  # fmt: skip
    return RunTrial("two", point, cast(Result, told), None), server


def test_processes_and_the_switch_are_told_by_what_was_counted(tmp_path: Path) -> None:
    one, server = hosted(tmp_path)
    told = {pair.part: pair.predicted for pair in one.busy(server)}
    vnf = 35 + 60 + 5 + 50 + 50 + 15 + 20
    assert told["l2fwd"] == pytest.approx(2_000 * vnf + 100 * 48)
    given, full, asked = 20 + 30 + 25 + 20, 25 + 20, 100
    wire = 3_200 * given - 1_200 * full + 100 * 64 + 100 * 3  # a burst for two links
    links = 2_000 * (40 + 60 + 30 + 10) + asked * 64 + (150 * 2 - asked) * 20
    assert told["nic"] == pytest.approx(wire + links)
    assert told["idle 0"] == pytest.approx(100 * 10 + 90 * 10 + 150 * 3 * 20)


def in_a_row(start: DescribedServer, truth: DescribedServer) -> RunTrial:
    """Two VNFs that wait, on one lcore, as fast as possible: what they carry there."""
    doc = document.parse(
        "name: two\nchain: [{name: a, nf: l2fwd}, {name: b, nf: l2fwd}]\ndeployment:\n"
        "  hosting: {kind: process, wait: adaptive, chains: 1, slots: 64}\n  network: veb\n"
        "  execution: pipeline\n  lcores: {traffic: [0], chain: [1]}\n",
        Path("two.yaml"),
    )
    [one] = expand(doc)
    here, there = (
        SimulatedGround(server, server, "events").hosted_point(one, doc).priced()
        for server in (start, truth)
    )
    told = SimpleNamespace(
        goal="max", load_pps=1e6, received_pps=there.received_pps(there.source_pps()),
        latency_ns=None, loss_ratio=0.5,
    )  # fmt: skip
    assert here.received_pps(1e6) != told.received_pps
    point = SimulatedGround(start, start, "events").hosted_point(one, doc)
    return RunTrial("two", point, cast(Result, told), None)


def test_what_two_in_a_row_carry_tells_how_long_each_keeps_its_lcore(tmp_path: Path) -> None:
    """Slices are of 400 us; who is roused has the lcore after 80, and 200 are described."""
    l2fwd = COSTS.replace("BASE", "500")
    hosting = HOSTING.replace("slice_us: [100, x]", "slice_us: [400, x], kept_us: [200, x]")
    start = read_round(tmp_path, round_server(f"  l2fwd: {l2fwd}") + hosting)
    truth = with_figures(start, {"hosting.kept_us": {"value": 80.0}})
    trial = in_a_row(start, truth)
    taken = run_costs._taken(start, [trial], RunTrial.scheduled, run_costs.DELAYS)
    assert taken.hosting is not None and taken.hosting.kept_us is not None
    assert taken.hosting.kept_us.value == pytest.approx(80, rel=0.1)
    assert taken.hosting.slice_us == start.hosting.slice_us  # type: ignore[union-attr]


def test_a_bridge_outside_is_told_by_what_it_passed_on(tmp_path: Path) -> None:
    """The same deployment by `vepa`: what comes down to the NIC is in the bridge's bursts, and what
    finds the wire up full has been copied."""
    veb, server = hosted(tmp_path)
    vepa, _ = hosted(tmp_path, "vepa")
    told = {pair.part: pair.predicted for pair in vepa.busy(server)}
    assert told["nic"] == pytest.approx(
        next(pair.predicted for pair in veb.busy(server) if pair.part == "nic")
    )
    assert told["outside"] == pytest.approx(5_200 * (20 + 30 + 10) + 100 * 64)


def test_an_lcore_stood_still_as_often_as_it_was_seen_to(tmp_path: Path) -> None:
    """Ten times in nine milliseconds without packets: eight of 10 us, two of 30."""
    pauses = pauses_of([hosted(tmp_path)[0]])
    assert pauses is not None
    assert pauses.per_s.value == pytest.approx(10 / 0.009, rel=1e-3)
    assert sorted(set(pauses.us)) == [10.0, 30.0]
    assert pauses.us.count(30.0) / len(pauses.us) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    ("line", "moved", "why"),
    [
        (78.0, False, None),
        (None, False, None),  # nobody read it
        (340.0, False, "a line took 340 TSC cycles, 78 in most"),
        (78.0, True, "the host moved its lcores meanwhile"),
    ],
)
def test_a_trial_of_another_state_is_left_out(
    tmp_path: Path, line: float | None, moved: bool, why: str | None
) -> None:
    truth = read_round(tmp_path, SERVER)
    one = replace(trial(truth, truth, WAYS[0], 1e6), line=line, moved=moved)
    one.result.__dict__["received"] = 1
    assert why_not(one, 78.0) == why
