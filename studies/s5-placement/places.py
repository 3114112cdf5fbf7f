# SPDX-License-Identifier: Apache-2.0
"""Where S5's functions run and where their packets are: on a server of several NUMA nodes each of
the paper's placements, on one of a single node those that it has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.host.server import detect
from headrace.profile.studied import StudiedRun, workload

HERE = Path(__file__).resolve().parent
ORIGIN = HERE.parent / "s5-placement.yaml"
PUBLISHED = yaml.safe_load((HERE / "published.yaml").read_text(encoding="utf-8"))
CHAIN_MB = 512  # mbufs and rings
FRAME, FLOWS = 64, 1000
# What all of these figures have apart from the paper's.
UNLIKE = "another processor, and a core writes the packets, not a NIC's DMA"
ONE_NODE = "this server has one NUMA node"


@dataclass(frozen=True)
class Site:
    """A function and its packets. `node`: of the packets' memory, None: there is no other one."""

    name: str
    source: int
    vnf: int
    node: int | None


@dataclass(frozen=True)
class Chain:
    """Lcores of RX, ACL and TX; `name`: the nodes that they are on, in the paper's way."""

    name: str
    lcores: tuple[int, int, int]
    node: int | None

    @property
    def apart(self) -> bool:
        return len(set(self.lcores)) == len(self.lcores)


def by_node(cpus: Sequence[int]) -> dict[int, list[int]]:
    """Usable lcores of each node that has memory, the first lcore's node first."""
    server = detect()
    found: dict[int, list[int]] = {}
    for cpu in cpus:
        found.setdefault(server.node_of(cpu) or 0, []).append(cpu)
    memory = {one.node for one in server.nodes if one.memory_bytes}
    return {node: on for node, on in found.items() if node in memory or len(found) == 1}


def sites(cpus: Sequence[int]) -> list[Site]:
    """Packets are made on the first node, in its memory, as the paper's NIC is on node 0."""
    nodes = by_node(cpus)
    (near, here), *others = nodes.items()
    if not others:
        return [Site("local", here[0], here[-1], None)]
    remote = others[0][1][0]
    return [Site("local", here[0], here[-1], near), Site("remote", here[0], remote, near)]


def chains(cpus: Sequence[int]) -> list[Chain]:
    """Every triple of nodes; with one node every triple of two lcores, and one lcore for each where
    there are so many. Lcores that the traffic has are taken last."""
    nodes = by_node(cpus)
    (near, here), *others = nodes.items()
    if others:
        triples = itertools.product(nodes, repeat=3)
        return [Chain("-".join(map(str, on)), _lcores(on, nodes), near) for on in triples]
    found = [
        Chain(f"0-0-0, lcores {'-'.join(map(str, on))}", on, None)
        for a, b, c in itertools.product(here[-2:], repeat=3)
        if (on := (a, b, c))
    ]
    if len(here) >= 5:
        rx, acl, tx = here[1:4]
        found.append(Chain("0-0-0", (rx, acl, tx), None))
    return found


def _lcores(on: tuple[int, ...], nodes: dict[int, list[int]]) -> tuple[int, int, int]:
    """One for each as far as the node has them: the traffic's, first and last of the first node,
    only when the others are used up, and then the same one again."""
    free = {node: [*cpus[1:], cpus[0]] for node, cpus in nodes.items()}
    rx, acl, tx = (free[node].pop(0) if len(free[node]) > 1 else free[node][0] for node in on)
    return rx, acl, tx


def spec(
    nfs: list[dict[str, Any]],
    segments: list[list[str]],
    lcores: Sequence[Sequence[int]],
    traffic: Sequence[int],
    node: int | None,
    **deployment: Any,
) -> dict[str, Any]:
    where = {} if node is None else {"packets_node": node}
    return {
        "name": "s5-placement",
        "chain": nfs,
        "deployment": {
            "execution": {"segments": segments, "lcores": [list(on) for on in lcores]},
            "lcores": {"traffic": list(dict.fromkeys(traffic)), "shared": True},
            "memory_mb": CHAIN_MB,
            **where,
            **deployment,
        },
        "workload": workload(FRAME, FLOWS),
    }


def minimal(site: Site, locate: int = 0) -> dict[str, Any]:
    """Receives, reads the header's first byte, drops, as the paper's minimal VNF does."""
    nfs: list[dict[str, Any]] = [
        {"name": "touch", "nf": "delay", "params": {"touch_bytes": 1}},
        {"name": "end", "nf": "null", "params": {"action": "drop"}},
    ]
    made = spec(nfs, [["touch", "end"]], [[site.vnf]], [site.source], site.node, locate=locate)
    return {**made, "measure": {"losses": "unintended"}}  # what it drops it has carried


def lost(run: StudiedRun) -> str:
    return f" ({run.loss:.1%} lost)" if run.loss > 0.001 else ""
