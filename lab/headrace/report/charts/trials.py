# SPDX-License-Identifier: Apache-2.0
"""The trials of a search: each one's load, whether it lost packets, and the bounds so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import loss, pps, rate_scale
from headrace.record.text import between

from .svg import Map, covering, el, line, linear, picture, rect, shorten, spaced, text, title

HEIGHT, TOP, BOTTOM, LEFT = 248.0, 24.0, 40.0, 58.0
STYLES = 6


class TrialDot(NamedTuple):
    """A trial of a search."""

    number: int
    load_pps: float  # each way, as the search's bounds are
    loss_ratio: float
    verdict: str


class GoalBounds(NamedTuple):
    goal: str
    lower_pps: float | None
    upper_pps: float | None


@dataclass(frozen=True)
class SearchTrials:
    dots: tuple[TrialDot, ...]
    bounds: tuple[GoalBounds, ...]
    kind: Literal["trials"] = "trials"

    def draw(self, width: float) -> str:
        return draw(self.dots, self.bounds, width)


def draw(dots: Sequence[TrialDot], bounds: Sequence[GoalBounds], width: float) -> str:
    if not dots:
        return ""
    right = 12.0 if width < 500 else 130.0
    known = [v for b in bounds for v in (b.lower_pps, b.upper_pps) if v is not None]
    marks = covering(max((*known, *(d.load_pps for d in dots))) or 1.0, 4)
    first, last, end = dots[0].number, dots[-1].number, width - right
    x = linear(first - 0.5, max(last, first + 9) + 0.5, LEFT, end)
    y = linear(0, marks[-1], HEIGHT - BOTTOM, TOP)
    scale = rate_scale(marks[-1])
    body = []
    for value in marks:
        body.append(line(LEFT, y(value), end, y(value), class_="grid"))
        body.append(
            text(LEFT - 8, y(value) + 4, scale.number(value), class_="tick", text_anchor="end")
        )
    heights = spaced_names(bounds, y)
    for i, one in enumerate(bounds):
        body.append(_band(one, y, end, heights[i] if width >= 500 else None, i))
    for dot in dots:
        lost = "lost" if dot.loss_ratio else ""
        state = "" if dot.verdict == "ok" else "doubtful"
        tip = f"trial {dot.number}, {pps(dot.load_pps)}: loss {loss(dot.loss_ratio)}, {dot.verdict}"
        body.append(
            el(
                "circle",
                title(tip),
                cx=x(dot.number),
                cy=y(dot.load_pps),
                r=4,
                class_=" ".join(("trial", lost, state)).strip(),
            )
        )
    below = HEIGHT - BOTTOM + 17
    body += [
        text(x(number), below, str(number), class_="tick", text_anchor="middle")
        for number in sorted({first, last})
    ]
    body.append(text((LEFT + end) / 2, HEIGHT - 6, "trial", class_="tick", text_anchor="middle"))
    body.append(text(0, 10, f"load, {scale.unit}", class_="tick"))
    words = "; ".join(f"{b.goal}: {between(b.lower_pps, b.upper_pps)}" for b in bounds)
    return picture(width, HEIGHT, f"{len(dots)} trials of the search. {words}", *body)


def _band(one: GoalBounds, y: Map, end: float, at: float | None, i: int) -> str:
    """`at`: where its name stands; None: there is no room for names."""
    style = f"l{i % STYLES + 1}"
    parts = []
    if one.lower_pps is not None and one.upper_pps is not None:
        top = y(one.upper_pps)
        parts.append(rect(LEFT, top, end - LEFT, y(one.lower_pps) - top, class_="water"))
    parts += [
        line(LEFT, y(value), end, y(value), class_=f"curve thin {style}")
        for value in (one.lower_pps, one.upper_pps)
        if value is not None
    ]
    if at is not None and parts:
        name = shorten(one.goal, 118, 12.5)
        parts.append(text(end + 9, at + 4, name, class_=f"name {style}"))
    return "".join(parts)


def spaced_names(bounds: Sequence[GoalBounds], y: Map) -> list[float]:
    """Names keep the order of the lines, and are never on each other."""
    wanted = [y(one.lower_pps or one.upper_pps or 0.0) for one in bounds]
    order = sorted(range(len(bounds)), key=wanted.__getitem__)
    places = spaced([wanted[i] for i in order], 15.0, TOP, HEIGHT - BOTTOM)
    return [at for _, at in sorted(zip(order, places, strict=True))]
