# SPDX-License-Identifier: Apache-2.0
"""What holds a predicted chain back and is no lcore is named, with its figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.place import Topology, place
from headrace.ground.hosted.arrangement import arrange, placement_of
from headrace.ground.hosted.cpus import Cpu
from headrace.ground.simulated import priced_hosted_test, simulated_test
from headrace.ground.simulated.ground import SimulatedDeployed, SimulatedGround, SimulatedPoint
from headrace.record.facts import Observation
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.study import expand

HOSTED = """
name: hosted
chain: [{chain}]
deployment:
  hosting: {{kind: process, chains: 2, {limit}: {gbps}}}
  lcores: {{traffic: [0], chain: [1, 2]}}
workload: {{frame: 512, flows: 64}}
"""
SECONDS = 2.0


def seen(point: SimulatedPoint, load_pps: float) -> Observation:
    up = SimulatedDeployed(point)
    [offer] = point.offers
    up.start(offer, load_pps, SECONDS)
    [one] = up.read()
    return one


def hosted(
    described: DescribedServer, limit: str, gbps: float = 0.2, functions: int = 1
) -> SimulatedPoint:
    chain = ", ".join(f"{{name: f{i}, nf: l2fwd}}" for i in range(functions))
    doc = document.parse(HOSTED.format(limit=limit, gbps=gbps, chain=chain), Path("hosted.yaml"))
    [one] = expand(doc)
    bare = arrange(one, doc, described.cpus, lambda cpu: Cpu(cpu, (0, cpu), 0))
    vnfs = [vnf for chain in bare.chains for vnf in chain]
    placement = placement_of(vnfs, bare.traffic, (), one.study.deployment.network)
    ground = SimulatedGround(described, described, "analytic")
    return SimulatedPoint(one, doc, ground, placement, bare)


@pytest.mark.parametrize(
    ("limit", "kind", "place", "times", "crossings"),
    [
        ("switch_gbps", "switch", "nic", 1, 1),
        ("uplink_gbps", "uplink", "nic", 1, 1),
        ("rate_cap_gbps", "rate-cap", "vnf1.1", 2, 0.5),  # each of two has half of the packets
    ],
)
def test_a_hosted_chains_limit_is_in_its_trials(
    tmp_path: Path, limit: str, kind: str, place: str, times: int, crossings: float
) -> None:
    """0.2 Gbit/s of frames of 512 B and 20 of layer 1."""
    full = 0.2e9 / (532 * 8) * times
    point = hosted(priced_hosted_test.server(tmp_path), limit)
    [near] = seen(point, 0.99 * full).figures.limits
    assert (near.kind, near.place, near.gbps) == (kind, place, 0.2)
    assert near.used == pytest.approx(0.99) and near.crossings == crossings and not near.dropped
    over = seen(point, 1.1 * full).figures
    assert over.limits[0].dropped == pytest.approx(0.1 * full * SECONDS, abs=2)
    # What a VNF is licensed for, it may be asked for more; of a wire there is no more than all.
    assert over.limits[0].used == pytest.approx(1.1 if kind == "rate-cap" else 1.0)


def test_a_licence_is_asked_for_what_comes_out_of_its_vnf(tmp_path: Path) -> None:
    """The VNFs' lcores carry less than is sent, and a thousandth of what they may."""
    point = hosted(priced_hosted_test.server(tmp_path), "rate_cap_gbps", 1000, 20)
    figures = seen(point, 60e6).figures
    assert figures.received_pps < figures.sent_pps
    [licence] = [limit for limit in figures.limits if limit.kind == "rate-cap"]
    assert licence.used == pytest.approx(figures.received_pps / 2 * 532 * 8 / 1000e9, rel=0.01)
    assert not licence.dropped


def test_ports_of_a_tester_outside_are_a_limit(tmp_path: Path) -> None:
    """One of 1 Gbit/s and 64 B: 1.488 Mpps; one lcore of 150 cycles carries 6.7."""
    text = simulated_test.SERVER + "tester: outside\nports: [{gbps: [1, x]}]\n"
    described = simulated_test.server(tmp_path, text)
    doc = document.parse(
        simulated_test.STUDY.format(execution="rtc", chain="[1]"), tmp_path / "two.yaml"
    )
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    ground = SimulatedGround(described, described, "analytic")
    figures = seen(SimulatedPoint(one, doc, ground, placement), 0.0).figures
    [limit] = figures.limits
    assert (limit.kind, limit.place) == ("port", "round") and limit.gbps == pytest.approx(1)
    assert limit.used == pytest.approx(1) and figures.received_pps == pytest.approx(1e9 / 84 / 8)
