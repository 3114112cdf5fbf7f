# SPDX-License-Identifier: Apache-2.0
"""Which functions each direction's traffic meets, and where their edges lead (docs/spec.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from headrace.spec.chain import Node

Direction = Literal["forward", "reverse"]

OUT, DROP = "out", "drop"
Edges = dict[str, str]  # edge -> function, `out` or `drop`; what is not named leads as the first


class Ways:
    """A chain's edges, per direction.

    The main way leads from the first function to the chain's end; of several, the one that the
    functions' first edges take. Reverse traffic goes it backwards. What branches off it and never
    comes out (a copy for an IDS) sees both directions; what comes out elsewhere, forward only.
    """

    def __init__(self, nodes: Sequence[Node], edges: Mapping[str, Sequence[str]]) -> None:
        """`edges`: the names of each node's."""
        self._first = {node.name: edges[node.name][0] for node in nodes}
        behind = [*(node.name for node in nodes[1:]), OUT][: len(nodes)]
        self._forward: dict[str, Edges] = {
            node.name: {edges[node.name][0]: onwards, **node.to}
            for node, onwards in zip(nodes, behind, strict=True)
        }
        # Edges lead to later functions only, so that each one's are known before it.
        self._outwards: dict[str, str] = {}  # where the main way goes on from a function
        for node in reversed(nodes):
            targets = self._forward[node.name].values()
            port = next((t for t in targets if t == OUT or t in self._outwards), None)
            if port is not None:
                self._outwards[node.name] = port
        self.main = tuple(self._walk(nodes[0].name)) if nodes else ()

    def _walk(self, name: str) -> Iterator[str]:
        while name in self._outwards:
            yield name
            name = self._outwards[name]

    def meets(self, direction: Direction) -> tuple[str, ...]:
        """The functions of the main way, in the order in which this direction meets them."""
        return self.main if direction == "forward" else self.main[::-1]

    def targets(self, name: str, direction: Direction) -> Edges:
        ahead = self._forward[name]
        if direction == "forward":
            return dict(ahead)
        if name not in self._outwards:
            return dict(ahead)  # nothing comes out of it, whichever way it was reached
        first = self._first[name]
        if name not in self.main:
            return {first: DROP}  # no reverse traffic comes here
        place = self.main.index(name)
        kept = {edge: to for edge, to in ahead.items() if edge != first and self._ends(to)}
        return {first: self.main[place - 1] if place else OUT, **kept}

    def _ends(self, target: str) -> bool:
        return target == DROP or (target != OUT and target not in self._outwards)
