# SPDX-License-Identifier: Apache-2.0
"""A chain with branches as edges, each with the share of the packets that the study gives it: which
packets take an edge is up to their contents, and no model knows that."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.engine.describe import Description
from headrace.engine.plan_compiler import ways_of
from headrace.errors import unknown
from headrace.layout.layout import SOURCE, Edge
from headrace.spec.document import Document
from headrace.spec.study import Experiment

Shares = Mapping[str, Mapping[str, float]]
_AT = ("ground", "simulated", "shares")
_ROUNDING = 1e-9


def edges_of(
    experiment: Experiment, doc: Document, description: Description, shares: Shares
) -> tuple[Edge, ...]:
    """None where each function sends all that it gets to the next one. What shares leave is
    dropped; copies are more than all."""
    _check(experiment, doc, description, shares)
    names = [node.name for node in experiment.nodes]
    ways = ways_of(experiment, description)
    places = {**{name: i for i, name in enumerate(names)}, "out": len(names)}
    visits, edges = [1.0, *[0.0] * len(names)], [Edge(SOURCE, 0, 1.0)]
    plain = True
    for i, node in enumerate(experiment.nodes):
        targets = ways.targets(node.name, "forward")
        first = next(iter(targets.values()))
        given = shares.get(node.name)
        if not given and len(set(targets.values())) > 1:
            raise doc.error(
                (*experiment.node_paths[i][:-1], "to"),
                f"cannot predict: nobody knows which packets take which edge of {node.name}; "
                f"covered: with their shares, ground.simulated.shares.{node.name}: "
                f"{{{', '.join(f'{edge}: 0.5' for edge in targets)}}}",
            )
        for edge, share in (given or {next(iter(targets)): 1.0}).items():
            target = targets.get(edge, first)
            plain &= (target, share) == ((*names, "out")[i + 1], 1.0)
            if target != "drop":
                edges.append(Edge(i, places[target], visits[i] * share))
                visits[places[target]] += visits[i] * share
    if not _ROUNDING < visits[-1] <= 1 + _ROUNDING:
        raise doc.error(
            _AT, f"cannot predict: {visits[-1]:g} of the packets come out at the chain's end; "
            "covered: more than none, and no copies of them",
        )  # fmt: skip
    return () if plain else tuple(edges)


def _check(experiment: Experiment, doc: Document, description: Description, shares: Shares) -> None:
    kinds = {node.name: node.nf for node in experiment.nodes}
    for name in kinds.keys() & shares.keys():
        for edge in shares[name]:
            edges = description.edges(kinds[name])
            if edge not in edges:
                raise doc.error((*_AT, name, edge), unknown(edge, list(edges)))
