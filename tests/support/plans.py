# SPDX-License-Identifier: Apache-2.0
"""Plans for one chain under any execution model, between two ports."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.engine import memory_engine


@dataclass(frozen=True)
class Nf:
    """One function of a chain; all its edges lead on. `edge` is its first edge's name."""

    name: str
    type: str
    edge: str = "out"
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """An execution model: which functions share a segment, and on how many replicas."""

    name: str
    segments: tuple[tuple[str, ...], ...]
    replicas: tuple[int, ...] = ()
    burst: int = 32
    steer: str = "hash"

    def replicas_of(self, i: int) -> int:
        return self.replicas[i] if self.replicas else 1


def models(names: Sequence[str]) -> list[Model]:
    """Every execution model that a test of "the same packets out" goes through."""
    everything = tuple(names)
    single = tuple((name,) for name in names)
    first, rest = everything[:1], everything[1:]
    return [
        Model("rtc", (everything,)),
        Model("rtc-burst-1", (everything,), burst=1),
        Model("rtc-burst-7", (everything,), burst=7),
        Model("rtc-burst-64", (everything,), burst=64),
        Model("rtc-2-replicas", (everything,), (2,)),
        Model("rtc-2-replicas-even", (everything,), (2,), steer="even"),
        Model("pipeline", single),
        Model("hybrid-1-rest", (first, rest)),
        Model("hybrid-1-rest-2-replicas", (first, rest), (1, 2)),
        Model("hybrid-rest-1", (everything[:-1], everything[-1:])),
    ]


def pcap_port(read: Path | None, write: Path | None, name: str) -> dict[str, Any]:
    """A port over DPDK's net_pcap: packets come from one file and leave into another."""
    arguments = [f"net_pcap_{name}"]
    arguments += [f"rx_pcap={read}"] if read else []
    arguments += [f"tx_pcap={write}"] if write else []
    return port(",".join(arguments))


def port(device: str, **params: Any) -> dict[str, Any]:
    return {"type": "port", "params": {"devargs": device, **params}}


def lossless_ring() -> dict[str, Any]:
    return {"type": "ring", "params": {"size": 1024, "on_full": "wait"}}


def chain_plan(
    chain: Sequence[Nf], model: Model, cpus: Sequence[int], incoming: Any, outgoing: Any
) -> dict[str, Any]:
    """in port -> ring -> segments joined by rings -> ring -> out port.

    The reading and the writing segment have no functions: the ports keep one queue each, and the
    rings spread flows over replicas.
    """
    links: dict[str, Any] = {"in": incoming, "out": outgoing}
    segments: list[dict[str, Any]] = []
    by_name = {nf.name: nf for nf in chain}
    for i in range(len(model.segments) + 1):
        links[f"ring{i}"] = lossless_ring()
    segments.append(
        {"name": "reader", "cpus": [cpus[0]], "inputs": [{"link": "in", "to": "link:ring0"}]}
    )
    for i, names in enumerate(model.segments):
        segments.append(_segment(i, [by_name[name] for name in names], model, cpus))
    last = f"ring{len(model.segments)}"
    segments.append(
        {"name": "writer", "cpus": [cpus[0]], "inputs": [{"link": last, "to": "link:out"}]}
    )
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": links,
        "nfs": {nf.name: {"type": nf.type, "params": nf.params} for nf in chain},
        "segments": segments,
    }


def _segment(i: int, nfs: Sequence[Nf], model: Model, cpus: Sequence[int]) -> dict[str, Any]:
    onwards = [*(nf.name for nf in nfs[1:]), f"link:ring{i + 1}"]
    return {
        "name": f"s{i}",
        "cpus": [cpus[(i + 1 + k) % len(cpus)] for k in range(model.replicas_of(i))],
        "burst": model.burst,
        "steer": model.steer,
        "inputs": [{"link": f"ring{i}", "to": nfs[0].name if nfs else f"link:ring{i + 1}"}],
        "nodes": {nf.name: {"forward": {nf.edge: to}} for nf, to in zip(nfs, onwards, strict=True)},
    }


def beside_its_ends(
    cpus: Sequence[int], nfs: dict[str, Any], chain: dict[str, Any]
) -> dict[str, Any]:
    """A chain in a segment of its own, its source and sink in two others on one CPU; rings that
    wait, so that none is lost. In one segment a source that waits for room would keep the sink from
    making any. `chain`: what its segment says beside its CPU, from the link "wire" to "back"."""
    wait = {"type": "ring", "params": {"size": 1024, "on_full": "wait"}}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [128], "flows": 100}},
            "wire": wait,
            "back": wait,
            "meas": {"type": "sink", "params": {}},
        },
        "nfs": nfs,
        "segments": [
            {"name": "ends", "cpus": [cpus[0]], "inputs": [{"link": "gen", "to": "link:wire"}]},
            {"name": "chain", "cpus": [cpus[1]], **chain},
            {"name": "sink", "cpus": [cpus[0]], "inputs": [{"link": "back", "to": "link:meas"}]},
        ],
    }


def on_cpus(plan: dict[str, Any], ends: int, chain: int) -> dict[str, Any]:
    """The same with the chain and its ends on other CPUs."""
    moved = copy.deepcopy(plan)
    for segment, cpu in zip(moved["segments"], (ends, chain, ends), strict=True):
        segment["cpus"] = [cpu]
    return moved
