# SPDX-License-Identifier: Apache-2.0
"""A figure over runs, in the order of time: a line for each series, a dot for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import pps, rate_scale

from .svg import (
    Map,
    covering,
    el,
    line,
    linear,
    picture,
    polyline,
    shorten,
    spaced,
    text,
    title,
)

HEIGHT, TOP, BOTTOM, LEFT = 254.0, 30.0, 40.0, 58.0  # above: the axis' name, clear of its top
EDGE = 10.0  # from the axis' ends to the first and the last dot
STYLES = 6


class TrendDot(NamedTuple):
    run: int  # its place among the runs
    pps: float
    low_pps: float  # of its repetitions
    high_pps: float
    trusted: bool


class TrendLine(NamedTuple):
    name: str
    dots: tuple[TrendDot, ...]


@dataclass(frozen=True)
class Trend:
    runs: tuple[str, ...]  # their names, the oldest first
    lines: tuple[TrendLine, ...]
    kind: Literal["trend"] = "trend"

    def draw(self, width: float) -> str:
        return draw(self.runs, self.lines, width)


def draw(runs: Sequence[str], lines: Sequence[TrendLine], width: float) -> str:
    if not runs or not lines:
        return ""
    small = width < 500
    end = width - (12.0 if small else 130.0)
    marks = covering(max(d.high_pps for one in lines for d in one.dots) or 1.0, 4)
    # The first and the last run stand above their names.
    ends = (0.0, len(runs) - 1.0) if len(runs) > 1 else (-0.5, 0.5)
    x = linear(*ends, LEFT + EDGE, end - EDGE)
    y = linear(0, marks[-1], HEIGHT - BOTTOM, TOP)
    scale = rate_scale(marks[-1])
    body = []
    for value in marks:
        body.append(line(LEFT, y(value), end, y(value), class_="grid"))
        label = scale.number(value)
        body.append(text(LEFT - 8, y(value) + 4, label, class_="tick", text_anchor="end"))
    wanted = [y(one.dots[-1].pps) for one in lines]
    order = sorted(range(len(lines)), key=wanted.__getitem__)
    places = dict(
        zip(order, spaced([wanted[i] for i in order], 15.0, TOP, HEIGHT - BOTTOM), strict=True)
    )
    for i, one in enumerate(lines):
        style = f"l{i % STYLES + 1}"
        body += _line(one, runs, x, y, style)
        if not small:
            name = shorten(one.name, 118, 12.5)
            body.append(text(end + 9, places[i] + 4, name, class_=f"name {style}"))
    below = HEIGHT - BOTTOM + 17
    room = (end - LEFT) / 2 - 4
    body.append(text(LEFT, below, shorten(runs[0], room, 11.5), class_="tick"))
    if len(runs) > 1:
        last = shorten(runs[-1], room, 11.5)
        body.append(text(end, below, last, class_="tick", text_anchor="end"))
    body.append(text(0, 10, f"throughput, {scale.unit}", class_="tick"))
    words = "; ".join(f"{one.name}: {', '.join(pps(d.pps) for d in one.dots)}" for one in lines)
    return picture(width, HEIGHT, f"Throughput over {len(runs)} runs. {words}", *body)


def _line(one: TrendLine, runs: Sequence[str], x: Map, y: Map, style: str) -> list[str]:
    parts = []
    if len(one.dots) > 1:
        path = [(x(d.run), y(d.pps)) for d in one.dots]
        parts.append(polyline(path, class_=f"curve thin {style}"))
    for d in one.dots:
        at = x(d.run)
        parts.append(line(at, y(d.low_pps), at, y(d.high_pps), class_=f"curve thin {style}"))
        state = "point" if d.trusted else "point doubtful"
        tip = title(
            f"{runs[d.run]}\n{one.name}: {pps(d.pps)}" + ("" if d.trusted else ", not trusted")
        )
        parts.append(el("circle", tip, cx=at, cy=y(d.pps), r=3.4, class_=f"{state} {style}"))
    return parts
