# SPDX-License-Identifier: Apache-2.0
"""Which lcores VNFs have on a machine whose kernel isolates CPUs: two nodes of two cores with two
threads each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput
from headrace.ground.hosted import arrangement
from headrace.ground.hosted.cpus import Cpu
from headrace.spec import document
from headrace.spec.hosting import VFS_MAX
from headrace.spec.study import expand

SPEC = """
name: isolated
chain: [l2fwd]
deployment: {{hosting: {{kind: process, chains: 2{hosting}}}, lcores: {lcores}}}
"""


MANY = """
name: many
chain: [l2fwd]
deployment: {{hosting: {{kind: {kind}, chains: {chains}}}, network: {network}}}
workload: {{direction: {direction}}}
"""


def cpu(number: int) -> Cpu:
    return Cpu(number, (number // 4, number // 2), number // 4)


def nic_at(*arguments: Any) -> Cpu:
    return cpu(arguments[-1])


def arranged(
    lcores: str, hosting: str, isolated: Iterable[int], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[int]]:
    """Lcores of traffic, and those of the two VNFs; isolated CPUs are offered first."""
    monkeypatch.setattr(arrangement, "describe_cpu", cpu)
    monkeypatch.setattr(arrangement, "nic_at", nic_at)
    monkeypatch.setattr(arrangement, "isolated_cpus", lambda: frozenset(isolated))
    offered = sorted(range(8), key=lambda number: (number not in [*isolated], number % 2, number))
    doc = document.parse(SPEC.format(lcores=lcores, hosting=hosting), Path("x.yaml"))
    [experiment] = expand(doc)
    one = arrangement.arrange(experiment, doc, offered, cpu)
    return one.traffic, [lcore for chain in one.chains for vnf in chain for lcore in vnf.lcores]


@pytest.mark.parametrize(
    ("lcores", "hosting", "isolated", "traffic", "vnfs"),
    [
        ("auto", "", (), 0, [2, 4]),
        ("auto", "", range(2, 8), 2, [4, 6]),  # 0 and 1 are of the traffic's node, for all else
        ("{traffic: [4]}", "", range(2, 8), 4, [6, 2]),
        ("{traffic: [2]}", "", (2, 6), 2, [6, 6]),  # they share it
        ("{traffic: [2]}", "", (2, 3), 2, [0, 4]),  # the only isolated one is traffic's sibling
        ("{traffic: [2], chain: [0, 1]}", "", range(2, 8), 2, [0, 1]),  # told is told
        ("auto", ", placement: explicit, lcores: [0, 1]", range(2, 8), 2, [0, 1]),
    ],
)
def test_vnfs_have_isolated_cpus_where_there_are_some(
    lcores: str,
    hosting: str,
    isolated: Iterable[int],
    traffic: int,
    vnfs: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert arranged(lcores, hosting, isolated, monkeypatch) == ([traffic], vnfs)


@pytest.mark.parametrize(
    ("kind", "network", "direction", "most"),
    [
        ("vm", "veb", "forward", 31),
        ("vm", "vepa", "both", 15),
        ("vm", "ovs-dpdk", "forward", 63),
        ("vm", "bridge", "both", 31),
        ("vm", "sriov", "forward", 63),
        ("process", "veb", "forward", 63),
    ],
)
def test_machines_are_as_many_as_their_switch_can_have(
    kind: str, network: str, direction: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the host's own switch has its machines' ports as devices of DPDK."""
    monkeypatch.setattr(arrangement, "describe_cpu", cpu)
    monkeypatch.setattr(arrangement, "nic_at", nic_at)
    for chains in {most, min(most + 1, VFS_MAX)}:
        text = MANY.format(kind=kind, chains=chains, network=network, direction=direction)
        doc = document.parse(text, Path("x.yaml"))
        [experiment] = expand(doc)
        if chains == most:
            assert len(arrangement.arrange(experiment, doc, [0, 2], cpu).chains) == most
            continue
        with pytest.raises(BadInput, match=f"are {chains}; allowed: {most} VNFs, the v"):
            arrangement.arrange(experiment, doc, [0, 2], cpu)
