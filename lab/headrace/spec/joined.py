# SPDX-License-Identifier: Apache-2.0
"""Appliances on several servers: which has each of them, and what joins the servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from headrace.spec.appliance import Appliances, Cable
from headrace.spec.chain import Node


def check_joined(
    servers: Collection[str], chains: Mapping[str, Sequence[Node]], hosting: Appliances
) -> None:
    """ValueError where a chain is not on the servers in turn, or two have no cable between them."""
    _check_cables(servers, hosting.cables)
    if servers and hosting.network != ("bridge",):
        raise ValueError(
            f"deployment.hosting.network: {', '.join(hosting.network)}; allowed with `servers`: "
            "bridge"
        )
    ways = {name: way(name, nodes, servers) for name, nodes in chains.items()}
    for name, on in ways.items():
        for pair in pairwise(on):
            if cable_between(pair, hosting.cables) is None:
                raise ValueError(
                    f"deployment.hosting.cables: chain {name} goes from {pair[0]} to {pair[1]}, "
                    f"which none joins; allowed: one such as "
                    f"{{{pair[0]}: INTERFACE, {pair[1]}: INTERFACE}}"
                )
    used = {server for on in ways.values() for server in on}
    for server in servers:
        if server not in used:
            raise ValueError(
                f"servers.{server}: no VNF is there; allowed: servers that VNFs of a chain name"
            )


def way(chain: str, nodes: Sequence[Node], servers: Collection[str]) -> list[str]:
    """The servers that a chain goes through, each once; none where all of it is here."""
    on = [node.server for node in nodes]
    named = [server for server in on if server is not None]
    way = list(dict.fromkeys(named))
    if not servers and not named:
        return []
    strange = [server for server in way if server not in servers]
    if strange or len(named) < len(on) or not named:
        got = ", ".join(server or "none" for server in on) or "none"
        allowed = ", ".join(servers) or "none, as there are no `servers`"
        raise ValueError(f"chain {chain}: its VNFs are on servers {got}; allowed: {allowed}")
    if named != sorted(named, key=way.index):
        raise ValueError(
            f"chain {chain}: its VNFs are on servers {', '.join(named)}; allowed: one server "
            "after the other, without a way back"
        )
    return way


def cable_between(pair: tuple[str, str], cables: Sequence[Cable]) -> Cable | None:
    return next((one for one in cables if set(one) == set(pair)), None)


def _check_cables(servers: Collection[str], cables: Sequence[Cable]) -> None:
    ends = [end for cable in cables for end in cable.items()]
    for server, interface in ends:
        if server not in servers:
            allowed = ", ".join(servers) or "none, as there are no `servers`"
            raise ValueError(f"deployment.hosting.cables: got server {server}; allowed: {allowed}")
        if ends.count((server, interface)) > 1:
            raise ValueError(
                f"deployment.hosting.cables: {interface} of {server} is there twice; allowed: once"
            )
