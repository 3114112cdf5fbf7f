# SPDX-License-Identifier: Apache-2.0
"""What is said of a prediction, on a described server whose cycles can be added up by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analyse.bottleneck import pipe
from headrace.engine.place import Topology, place
from headrace.ground.simulated.ground import SimulatedDeployed, SimulatedGround, SimulatedPoint
from headrace.record.figures import Figures
from headrace.record.rows import Measurement
from headrace.record.verdict import Audit
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.round_testdata import COSTS, read_round, round_server
from headrace.spec.study import expand

SERVER = round_server(f"  acl: &nf {COSTS}\n  lb: *nf")
STUDY = """
name: two
chain: [acl, lb]
deployment:
  execution: [{execution}]
  lcores: {{traffic: [0, 7], chain: {chain}}}
  steer: even
workload: {{flows: {{count: 1000}}}}
"""


POLL = SERVER.replace("poll: [0, x]", "poll: [640, x]")


def up_of(described: DescribedServer, study: str, engine: str = "analytic") -> SimulatedDeployed:
    doc = document.parse(study, Path("two.yaml"))
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    ground = SimulatedGround(described, described, engine)
    return SimulatedDeployed(SimulatedPoint(one, doc, ground, placement))


def seen_at(up: SimulatedDeployed, pps: float) -> Measurement:
    """At this load for a second; 0 is as fast as possible."""
    [offer] = up.point.offers
    up.start(offer, pps, 1.0)
    [seen] = up.read()
    fields = {name: getattr(seen.figures, name) for name in Figures.model_fields}
    names = {"chain": "two", "execution": "e", "workload": "w", "direction": "forward"}
    return Measurement(**fields, **names, repetition=1, audit=Audit(verdict="ok"))


@pytest.mark.parametrize("execution", ["rtc", "pipeline"])
def test_what_a_part_can_carry_is_the_same_at_every_load(tmp_path: Path, execution: str) -> None:
    """640 cycles of a poll are 20 of a packet's in full bursts, and of a packet alone all."""
    up = up_of(read_round(tmp_path, POLL), STUDY.format(execution=execution, chain="[1, 2]"))
    carried, _ = up.point.priced().capacity()
    loads = (0.01 * carried, 0.5 * carried, 0.9 * carried, 1.2 * carried, 0.0)
    drawn = [pipe(seen_at(up, load)) for load in loads]
    assert [p.part(p.narrowest or "").capacity_pps for p in drawn] == pytest.approx([carried] * 5)
    each = {part.name: part.capacity_pps for part in drawn[0].parts}
    for other in drawn[1:]:
        assert {part.name: part.capacity_pps for part in other.parts} == each
    for one in drawn:
        assert all(part.role != "chain" or part.name in one.headline
                   for part in one.parts if part.name == one.narrowest)  # fmt: skip


def test_utilisation_is_what_is_offered_times_what_it_costs(tmp_path: Path) -> None:
    """160 cycles of a packet in full bursts: at nine tenths of what it carries it is busier than
    nine tenths, as polls find less, and has no more time than there is."""
    up = up_of(read_round(tmp_path, POLL), STUDY.format(execution="rtc", chain="[1]"))
    carried, _ = up.point.priced().capacity()
    for load in (0.01 * carried, 0.5 * carried, 0.9 * carried):
        seen = seen_at(up, load)
        assert seen.counters is not None
        [chain] = [r for r in seen.counters.replicas if r.segment == "chain"]
        cycles = chain.ops_cycles / chain.packets_in
        assert seen.utilisation["1"] == pytest.approx(load * cycles / 1e9, rel=1e-4)
        assert load / carried <= seen.utilisation["1"] <= 1
    assert seen_at(up, 1.2 * carried).utilisation["1"] == pytest.approx(1.0)
    assert all(busy <= 1 for busy in seen_at(up, 0.0).utilisation.values())


def test_a_tester_with_time_to_spare_is_not_the_bottleneck(tmp_path: Path) -> None:
    """At 120 % of what the second function carries; the first one works on all that is sent."""
    slower = (
        "{base: [90, x], rx: [20, x], tx: [10, x], hand_over: [0, x], loop: [5, x], poll: [0, x]}"
    )
    text = SERVER.replace("lb: *nf", f"lb: {slower}")
    up = up_of(read_round(tmp_path, text), STUDY.format(execution="pipeline", chain="[1, 2]"))
    carried, narrowest = up.point.priced().capacity()
    assert narrowest == "lcore 2" and carried == pytest.approx(1e9 / 125)
    seen = seen_at(up, 1.2 * carried)
    assert seen.loss_ratio == pytest.approx(1 - 1 / 1.2)
    drawn = pipe(seen)
    assert drawn.narrowest == "lb" and "lb is narrowest: it can carry 8" in drawn.headline
    assert seen.utilisation["2"] == pytest.approx(1.0)
    assert seen.counters is not None
    got = {r.segment: r.packets_in for r in seen.counters.replicas}
    assert got["generator"] == got["acl"] == pytest.approx(1.2 * carried, rel=1e-6)
    assert got["lb"] == got["sink"] == pytest.approx(carried, rel=1e-6)
