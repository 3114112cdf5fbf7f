# SPDX-License-Identifier: Apache-2.0
"""The routes of an `l3fwd`, as its parameters and files give them."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.ground.engines.acl_rules import Network
from headrace.ground.engines.adapter import MACS, Work
from headrace.spec.chain import Node
from headrace.spec.document import Document
from headrace.spec.lines import lines_of


@dataclass(frozen=True)
class NextHop:
    edge: int
    dst_mac: str
    src_mac: str


@dataclass(frozen=True)
class PrefixRoute:
    prefix: Network
    next_hop: int  # index


def check_routes(work: Work, node: Node, *, each: str) -> list[NextHop]:
    """BadInput for ranges, of which `each` address would be one, and for several ports."""
    if node.params.get("ranges"):
        raise work.refused(node, "ranges", f"would be a {each} each; allowed: routes, routes_file")
    hops = next_hops(node.params)
    if any(one.edge for one in hops):
        raise work.refused(node, "next_hops", "all leave by one port; allowed: edge 0")
    return hops


def next_hops(params: Mapping[str, Any]) -> list[NextHop]:
    given = params.get("next_hops", [{}])
    return [NextHop(edge=one.get("edge", 0), **{k: one.get(k, MACS[k]) for k in MACS})
            for one in given]  # fmt: skip


def routes(params: Mapping[str, Any], doc: Document) -> list[PrefixRoute]:
    """A prefix that is there twice has its last next hop. `ranges` are not among them."""
    table = {_prefix(one["prefix"]): one.get("next_hop", 0) for one in params.get("routes", ())}
    if (file := params.get("routes_file")) is not None:
        table |= _of_file(doc.resolve(file), len(next_hops(params)))
    return [PrefixRoute(prefix, hop) for prefix, hop in table.items()]


@functools.lru_cache(maxsize=1)
def _of_file(file: Path, hops: int) -> Mapping[Network, int]:
    """Kept, as it is asked for several times, and takes seconds where it has a million lines."""
    table, turn = dict[Network, int](), 0
    for line in lines_of(file):
        prefix, *hop = line.partition("#")[0].split() or [""]
        if not prefix:
            continue
        table[_prefix(prefix)] = int(hop[0]) if hop else turn % hops
        turn += not hop
    return table


def _prefix(text: str) -> Network:
    return ipaddress.ip_network(text, strict=False)
