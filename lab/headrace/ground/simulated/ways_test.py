# SPDX-License-Identifier: Apache-2.0
"""Traffic both ways and chains with branches, on a server whose cycles can be added up by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.engine.describe import Description
from headrace.engine.place import Topology, place
from headrace.errors import BadInput
from headrace.ground.simulated.branches import edges_of
from headrace.ground.simulated.ground import SimulatedDeployed, SimulatedGround, SimulatedPoint
from headrace.ground.simulated.refuse import check_covered
from headrace.layout.layout import SOURCE, Edge
from headrace.record.facts import Observation
from headrace.spec import document
from headrace.spec.round_testdata import COSTS, read_round, round_server
from headrace.spec.server_file import read_server
from headrace.spec.study import expand

SERVER = round_server(
    f"  l3fwd: &nf {COSTS}\n  nat: {COSTS.replace('50, x', '100, x')}\n  l2fwd: *nf"
)
SCHEMA: dict[str, Any] = {
    "nfs": {
        "l3fwd": {"edges": ["out0", "out1"], "params": {}},
        "nat": {"edges": ["out"], "params": {}},
        "l2fwd": {"edges": ["out"], "params": {}},
    }
}


def up_of(
    tmp_path: Path, chain: str, lcores: str, more: str = "", shares: Any = None
) -> SimulatedDeployed:
    """`lcores`: of each segment of one function."""
    described = read_round(tmp_path, SERVER)
    doc = document.parse(
        f"name: ways\nchain: {chain}\ndeployment:\n  execution: {lcores}\n"
        f"  lcores: {{traffic: [0, 7], chain: {'[1]' if 'rtc' in lcores else '[1, 2, 3]'}}}\n"
        "  steer: even\n"
        f"workload: {{flows: {{count: 1000}}{more}}}\n",
        Path("ways.yaml"),
    )
    [one] = expand(doc)
    check_covered(one, doc, described, described)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    edges = edges_of(one, doc, Description(Path("engine"), SCHEMA), shares or {})
    ground = SimulatedGround(described, described, "events")
    return SimulatedDeployed(SimulatedPoint(one, doc, ground, placement, edges=edges))


def trial(up: SimulatedDeployed, pps: float) -> list[Observation]:
    [offer] = up.point.offers
    up.start(offer, pps, 1.0)
    return list(up.read())


ALONE = 20 + 15 + 5 + 50 + 10  # l3fwd or l2fwd between two other lcores; nat 50 more


@pytest.mark.parametrize(
    ("execution", "lcores"),
    [("rtc", {1: 20 + 15 + 5 + 50 + 100 + 10}), ("pipeline", {1: ALONE, 2: ALONE + 50})],
)
def test_both_ways_share_the_lcores(
    tmp_path: Path, execution: str, lcores: dict[int, float]
) -> None:
    """Each lcore has each direction's packet: as many each way as half of one way alone."""
    up = up_of(tmp_path, "[l3fwd, nat]", f"[{execution}]", ", direction: both")
    layout = up.point.priced()
    cycles = layout.busiest()
    assert {cpu: cycles[cpu] for cpu in lcores} == pytest.approx(
        {cpu: 2 * each for cpu, each in lcores.items()}
    )
    assert cycles[0] == 2 * 30 and cycles[7] == 2 * (20 + 10)
    there, back, both = trial(up, 1e6)
    assert [one.direction for one in (there, back, both)] == ["forward", "reverse", "both"]
    assert there.figures.received == back.figures.received == 1e6
    assert both.figures.received == 2e6
    assert both.figures.utilisation["1"] == pytest.approx(2 * lcores[1] * 1e6 / 1e9)
    assert there.figures.latency_ns is not None and both.figures.latency_ns is not None
    most = trial(up, 0.0)[-1].figures
    assert most.throughput_pps == pytest.approx(2e9 / (2 * max(lcores.values())))
    assert most.predicted is not None
    assert min(one.pps for one in most.predicted.parts) == pytest.approx(most.throughput_pps)


def test_reverse_traffic_meets_the_last_function_first(tmp_path: Path) -> None:
    """Its segment takes what nobody has classified. Unclassified packets cost 20, others 4."""
    global_server = SERVER.replace("rx: [20, x]", "rx: [20, x], rx_known: [4, x]")
    file = tmp_path / "known.yaml"
    file.write_text(global_server)
    for direction, first in (("forward", 1), ("reverse", 2)):
        up = up_of(tmp_path, "[l3fwd, nat]", "[pipeline]", f", direction: {direction}")
        described = read_server(file)[1]
        ground = SimulatedGround(described, described, "events")
        layout = up.point.priced(ground=ground)
        assert layout.stages[1][0].cpu == first
        [only] = trial(up, 1e6)
        assert only.direction == direction and only.figures.loss_ratio == 0


BRANCH = "[{nf: l3fwd, to: {out1: l2fwd}}, nat, l2fwd]"


def test_a_branch_has_its_share_of_the_packets(tmp_path: Path) -> None:
    """A quarter goes past nat: the pipeline's second lcore has three packets of four."""
    shares = {"l3fwd": {"out0": 0.75, "out1": 0.25}}
    up = up_of(tmp_path, BRANCH, "[pipeline]", shares=shares)
    assert up.point.edges == (
        Edge(SOURCE, 0, 1.0), Edge(0, 1, 0.75), Edge(0, 2, 0.25), Edge(1, 2, 0.75),
        Edge(2, 3, 1.0),
    )  # fmt: skip
    cycles = up.point.priced().busiest()
    assert {cpu: cycles[cpu] for cpu in (1, 2, 3)} == pytest.approx(
        {1: ALONE, 2: 0.75 * (ALONE + 50), 3: ALONE}
    )
    [seen] = trial(up, 1e6)
    assert seen.figures.received == 1e6 and seen.figures.latency_ns is not None
    assert seen.figures.counters is not None
    got = {r.segment: r.packets_in for r in seen.figures.counters.replicas}
    assert got["nat"] == 750_000 and got["l2fwd"] == 1e6
    assert seen.figures.utilisation["2"] == pytest.approx(0.75 * 150 * 1e6 / 1e9)


def test_what_shares_leave_is_dropped(tmp_path: Path) -> None:
    """One packet of ten; the functions behind have nine, as a run to completion adds them up."""
    up = up_of(tmp_path, "[l3fwd, nat]", "[rtc]", shares={"l3fwd": {"out0": 0.9}})
    assert up.point.priced().busiest()[1] == pytest.approx(20 + 15 + 5 + 50 + 0.9 * (100 + 10))
    [seen] = trial(up, 1e6)
    assert seen.figures.received == 900_000
    assert seen.figures.drops == {"chain/drop": 100_000}


def test_shares_that_nobody_gave_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"chain\[0\].to: cannot predict: nobody knows which .*0.5"):
        up_of(tmp_path, BRANCH, "[pipeline]")
    with pytest.raises(BadInput, match=r"nobody knows which"):
        up_of(tmp_path, BRANCH, "[pipeline]", shares={"l3fwd": {}})
    with pytest.raises(BadInput, match=r"shares.l3fwd.out7: unknown key .*out0, out1"):
        up_of(tmp_path, BRANCH, "[pipeline]", shares={"l3fwd": {"out7": 1.0}})
    with pytest.raises(BadInput, match="0 of the packets come out"):
        up_of(tmp_path, "[l3fwd, nat]", "[rtc]", shares={"l3fwd": {"out0": 0.0}})
    with pytest.raises(BadInput, match="direction: cannot predict: both with branches"):
        up_of(tmp_path, BRANCH, "[pipeline]", ", direction: both")
