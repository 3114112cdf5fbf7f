# SPDX-License-Identifier: Apache-2.0
"""A chain: functions in the order in which forward traffic meets them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.base import NAME_PATTERN, Spec
from headrace.spec.document import Document, PathKey

_ALLOWED = "`- acl: {...}`, `- acl`, or `- {name: edge, nf: acl, params: {...}}`"
RESERVED = ("generator", "sink")
_LONG_KEYS = {"name", "nf", "params", "to", "server"}


class Node(Spec):
    """One function. `to` sends an edge elsewhere than to the next function: a later
    function's name, `out` (the chain's end) or `drop`. `server`: where a chain of several servers
    has it."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    nf: Annotated[str, Field(min_length=1)]
    params: dict[str, Any] = Field(default_factory=dict)
    to: dict[str, str] = Field(default_factory=dict)
    server: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, Node):
            return value
        if value is None:  # YAML reads a bare `null` as nothing; there is an NF of that name
            value = "null"
        if isinstance(value, str):
            return {"name": value, "nf": value}
        if not isinstance(value, dict):
            raise ValueError(f"allowed: {_ALLOWED}")
        if "nf" in value:
            nf = "null" if value["nf"] is None else value["nf"]
            return {"name": nf, **value, "nf": nf}
        if len(value) != 1 or set(value) & _LONG_KEYS:
            raise ValueError(f"a function is one key, its kind; allowed: {_ALLOWED}")
        [(nf, params)] = value.items()
        nf = "null" if nf is None else nf
        return {"name": nf, "nf": nf, "params": {} if params is None else params}


def name_apart(nodes: Any) -> Any:
    """Give the second `acl` of a chain the name acl-2, so that each has its own counters."""
    if not isinstance(nodes, list | tuple):
        return nodes
    named: list[Any] = []
    seen: dict[str, int] = {}
    for item in nodes:
        if isinstance(item, Node):
            named.append(item)
            continue
        node = Node.model_validate(item) if _is_short(item) else item
        if isinstance(node, Node):
            seen[node.name] = seen.get(node.name, 0) + 1
            if seen[node.name] > 1:
                node = node.model_copy(update={"name": f"{node.name}-{seen[node.name]}"})
        named.append(node)
    return named


def _is_short(item: Any) -> bool:
    if item is None or isinstance(item, str):
        return True
    return (
        isinstance(item, dict)
        and len(item) == 1
        and not set(item) & _LONG_KEYS
        and isinstance(next(iter(item.values())), dict | None)
        and isinstance(next(iter(item)), str | None)
    )


Chain = Annotated[tuple[Node, ...], BeforeValidator(name_apart)]


def check_chain(
    doc: Document, nodes: tuple[Node, ...], places: tuple[tuple[PathKey, ...], ...]
) -> None:
    """Names are unique and edges lead onwards: the nodes of a chain form a DAG. `places`: of the
    nodes' parameters in the document."""
    order = [node.name for node in nodes]
    for i, (node, place) in enumerate(zip(nodes, places, strict=True)):
        at = place[:-1]
        if node.name in order[:i]:
            raise doc.error(at, f"function {node.name!r} appears twice; allowed: unique names")
        if node.name in RESERVED:
            raise doc.error(
                at,
                f"function {node.name!r} has the name of a part of the tester; allowed: another "
                "name, as {name: edge, nf: ...}",
            )
        onwards = (*order[i + 1 :], "out", "drop")
        for edge, target in node.to.items():
            if target not in onwards:
                problem = "leads backwards" if target in order else "leads nowhere"
                raise doc.error(
                    (*at, "to", edge), f"{problem}; allowed: {', '.join(onwards)}", value=target
                )
