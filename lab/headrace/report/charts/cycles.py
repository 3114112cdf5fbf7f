# SPDX-License-Identifier: Apache-2.0
"""Cycles per packet, stacked per execution model: each NF, the links, the segment loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.bottleneck import Pipe
from headrace.analyse.capacity import CapacityCost, CostKind
from headrace.analyse.units import significant

from .svg import fits, line, linear, picture, rect, shorten, text, text_width, ticks, title

ROW, AXIS = 36.0, 26.0
COLOURS = 8  # fill classes n1..n8 of the page's style sheet


class CycleStack(NamedTuple):
    name: str
    costs: tuple[CapacityCost, ...]
    lcores: int


@dataclass(frozen=True)
class Cycles:
    stacks: tuple[CycleStack, ...]
    kind: Literal["cycles"] = "cycles"

    def draw(self, width: float) -> str:
        return draw(self.stacks, width)


def stack(name: str, pipe: Pipe) -> CycleStack | None:
    """The chain's parts only, per packet that enters the chain's first part. None where that is
    not known of each: the others' sum would pass for the whole."""
    chain = [p for p in pipe.parts if p.role == "chain" and p.costs]
    if not chain or any(p.held_up for p in pipe.parts if p.role == "chain"):
        return None
    nfs = tuple(c for p in chain for c in p.costs if c.kind == "nf")
    rest = tuple(
        CapacityCost(name=kind, kind=kind, cycles=total)
        for kind in _REST
        if (total := sum(c.cycles for p in chain for c in p.costs if c.kind == kind)) > 0
    )
    cpus = {cpu for p in chain for cpu in p.cpus}
    return CycleStack(name, (*nfs, *rest), len(cpus))


_REST: tuple[CostKind, ...] = ("links", "loop")


def colours(stacks: Sequence[CycleStack]) -> dict[str, str]:
    """Class of each cost's name; an NF keeps its colour in all stacks."""
    names = dict.fromkeys(c.name for s in stacks for c in s.costs if c.kind == "nf")
    classes = {name: f"n{i % COLOURS + 1}" for i, name in enumerate(names)}
    present = {c.kind for s in stacks for c in s.costs}
    return classes | {kind: kind for kind in _REST if kind in present}


def draw(stacks: Sequence[CycleStack], width: float) -> str:
    if not stacks:
        return ""
    small = width < 500
    classes = colours(stacks)
    largest = max(sum(c.cycles for c in s.costs) for s in stacks)
    left = min(110.0 if small else 190.0, max(text_width(s.name, 13) for s in stacks) + 12)
    x = linear(0, largest, left, width - 52)
    height = ROW * len(stacks) + AXIS
    body = []
    for value in ticks(largest, 3 if small else 6):
        body.append(line(x(value), 0, x(value), height - AXIS + 4, class_="grid"))
        body.append(text(x(value), height - 8, f"{value:g}", class_="tick", text_anchor="middle"))
    for i, s in enumerate(stacks):
        top = i * ROW + 6
        name = shorten(s.name, left - 10, 13)
        body.append(text(left - 10, top + 17, name, class_="row", text_anchor="end"))
        at = 0.0
        for cost in s.costs:
            tip = f"{cost.name}: {significant(cost.cycles)} cycles per packet"
            w = x(at + cost.cycles) - x(at)
            cell = classes.get(cost.name, cost.kind)
            body.append(rect(x(at), top, w - 1, 24, title(tip), class_=f"cell {cell}"))
            shown = significant(cost.cycles)
            if fits(shown, w - 4, 12):
                centre = x(at) + w / 2
                body.append(text(centre, top + 16, shown, class_="in", text_anchor="middle"))
            at += cost.cycles
        body.append(text(x(at) + 6, top + 17, significant(at), class_="value"))
    words = "; ".join(
        f"{s.name}: " + ", ".join(f"{c.name} {significant(c.cycles)}" for c in s.costs)
        for s in stacks
    )
    return picture(width, height, f"Cycles per packet. {words}", *body)
