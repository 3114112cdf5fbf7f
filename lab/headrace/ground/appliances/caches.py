# SPDX-License-Identifier: Apache-2.0
"""What a chain's cache answered itself, against the share of requests that were to be repeated.

A workload asks for a few hot objects again and again, and else for new ones, which the servers
forbid to store (vnfs/traffic/start): so the hot ones stay in a cache, however long a trial is. The
first cache on the way answers them; a further one sees only what is new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.ground.appliances.addressing import ContainerLayout, ContainerNode
from headrace.ground.appliances.graph import ApplianceGraph, Supply
from headrace.ground.catalogue import VnfDefinition
from headrace.record.verdict import Finding
from headrace.spec.workload import AnyWorkload, Http

OFF_MAX = 0.05  # of the share that was asked for
_UNCOUNTED_MAX = 0.02  # of the misses, by which the servers may have seen others
_FEW = 20  # requests that are on their way while counters are read
_BLOCK_KB = 4  # a cache keeps objects in pages, and their headers with them
_SPARE_MB = 8
Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Looked:
    """What the instances of one cache counted in a trial."""

    place: str
    requests: int
    hits: int

    @property
    def ratio(self) -> float | None:
        return self.hits / self.requests if self.requests else None


def places(layout: ContainerLayout, supplies: Mapping[str, Supply]) -> list[list[ContainerNode]]:
    """The instances of each cache, the clients' first."""
    nodes = [
        node for node in layout.of_kind("proxy")
        if supplies[node.vnf].definition.cache is not None and node.role in ("", "near")
    ]  # fmt: skip
    names = dict.fromkeys(n.place for n in sorted(nodes, key=lambda n: n.interface("up").lan))
    return [[node for node in nodes if node.place == name] for name in names]


def looked_up(deployed: ApplianceGraph, grown: Counters) -> Looked | None:
    """Goes by the first cache's own counters, as they grew; None where the chain has none."""
    caches = places(deployed.layout, deployed.supplies)
    if not caches:
        return None
    cache = deployed.supplies[caches[0][0].vnf].definition.cache
    assert cache is not None
    own = [grown.get(node.name, {}) for node in caches[0]]
    requests = sum(values.get(cache.requests, 0) for values in own)
    return Looked(caches[0][0].place, requests, sum(values.get(cache.hits, 0) for values in own))


def judge_hits(deployed: ApplianceGraph, workload: AnyWorkload, grown: Counters) -> list[Finding]:
    looked = looked_up(deployed, grown) if isinstance(workload, Http) else None
    if looked is None or not isinstance(workload, Http):
        return []
    ratio = looked.ratio
    off = abs(ratio - workload.repeated) if ratio is not None else 1.0
    finding = Finding(
        check=f"{looked.place}: hits", ok=off <= OFF_MAX, value=ratio or 0.0, limit=OFF_MAX,
        text=f"{looked.place} answered {ratio or 0.0:.1%} of {looked.requests} requests itself; "
        f"{workload.repeated:.0%} were to be repeated ones.",
    )  # fmt: skip
    return [finding, *_counted_by_servers(deployed, looked, grown)]


def _counted_by_servers(deployed: ApplianceGraph, looked: Looked, grown: Counters) -> list[Finding]:
    """The cache's word against the servers': where it is the only one, they see its misses."""
    if len(places(deployed.layout, deployed.supplies)) > 1:
        return []
    seen = sum(grown.get(n.name, {}).get("requests", 0) for n in deployed.layout.of_kind("server"))
    missed = looked.requests - looked.hits
    return [
        Finding(
            check=f"{looked.place}: misses", value=seen - missed, limit=_UNCOUNTED_MAX,
            ok=abs(seen - missed) <= max(_FEW, _UNCOUNTED_MAX * missed),
            text=f"The servers saw {seen} requests; {looked.place} sent on {missed}, as it counts.",
        )
    ]  # fmt: skip


def sized(
    definition: VnfDefinition, given: Mapping[str, Any], workloads: Sequence[AnyWorkload]
) -> dict[str, Any]:
    """Parameters of a VNF: a cache that is given no size gets one that holds the hot objects."""
    cache = definition.cache
    asked = [w for w in workloads if isinstance(w, Http) and w.repeated > 0]
    if cache is None or not asked:
        return dict(given)
    hot = {w.object_kb: 0 for w in asked}
    for workload in asked:
        hot[workload.object_kb] = max(hot[workload.object_kb], workload.hot_objects)
    kept_kb = sum(count * (_pages(size) + 2 * _BLOCK_KB) for size, count in hot.items())
    under_way_kb = max(2 * w.connections * _pages(w.object_kb) for w in asked)
    needed = {cache.memory_mb: math.ceil((kept_kb + under_way_kb) / 1024) + _SPARE_MB}
    if cache.object_kb is not None:
        needed[cache.object_kb] = max(hot)
    enough = {
        name: value for name, value in needed.items()
        if value > float(definition.parameters[name].default)
    }  # fmt: skip
    return enough | dict(given)


def _pages(kb: int) -> int:
    return _BLOCK_KB * math.ceil(kb / _BLOCK_KB)
