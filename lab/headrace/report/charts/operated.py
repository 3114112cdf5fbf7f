# SPDX-License-Identifier: Apache-2.0
"""A load over time, how many lcores each policy had for it, and when the SLO was broken: one axis
of time, a panel for each. Or the same of several chains, each with a load of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from headrace.analyse.units import pps, rate_scale, significant

from .svg import Map, covering, line, linear, picture, polyline, rect, shorten, text, ticks, title

TOP, LEFT, GAP, BELOW = 22.0, 76.0, 34.0, 40.0
LOAD, LCORES, MARKS = 96.0, 150.0, 18.0  # heights of the panels; MARKS of each policy
STYLES = 6


class OperatedPoint(NamedTuple):
    """What holds from this time on, until the next point's."""

    at_s: float
    offered_pps: float
    lcores: float
    broken: int  # windows


class OperatedLine(NamedTuple):
    name: str  # of a policy, or of a chain
    points: tuple[OperatedPoint, ...]


@dataclass(frozen=True)
class OperatedCourse:
    """`end_s`: of the last points; `loads`: each line has its own, where otherwise all have one."""

    lines: tuple[OperatedLine, ...]
    end_s: float
    loads: bool = False
    kind: Literal["operated"] = "operated"

    def draw(self, width: float) -> str:
        return draw(self.lines, self.end_s, width, self.loads)


def draw(lines: Sequence[OperatedLine], end_s: float, width: float, loads: bool = False) -> str:
    lines = [one for one in lines if one.points]
    if not lines:
        return ""
    right = width - (12.0 if width < 500 else 110.0)
    x = linear(0.0, end_s, LEFT, right)
    lcores_top = TOP + LOAD + GAP
    marks_top = lcores_top + LCORES + GAP
    bottom = marks_top + MARKS * len(lines)
    body = [
        *_load(lines if loads else lines[:1], x, right),
        *_lcores(lines, x, right, lcores_top, end_s, narrow=width < 500),
        *_broken(lines, x, right, marks_top, end_s),
        *_seconds(x, end_s, bottom),
    ]
    words = "; ".join(f"{one.name}: {_words(one, end_s)}" for one in lines)
    each = "chain" if loads else "policy"
    label = f"Load, lcores of each {each} and windows that broke the SLO over time. {words}"
    return picture(width, bottom + BELOW, label, *body)


def _words(one: OperatedLine, end_s: float) -> str:
    broken = sum(point.broken for point in one.points)
    return f"{significant(_mean(one, end_s))} lcores in the mean, {broken} windows broken"


def _mean(one: OperatedLine, end_s: float) -> float:
    ends = [*(point.at_s for point in one.points[1:]), end_s]
    total = sum(p.lcores * (end - p.at_s) for p, end in zip(one.points, ends, strict=True))
    return total / end_s if end_s else 0.0


def _load(lines: Sequence[OperatedLine], x: Map, right: float) -> list[str]:
    every = [point for one in lines for point in one.points]
    marks = covering(max(point.offered_pps for point in every) or 1.0, 3)
    y = linear(0.0, marks[-1], TOP + LOAD, TOP)
    scale = rate_scale(marks[-1])
    body = [text(0, 10, f"load, {scale.unit}", class_="tick")]
    body += _grid([(y(value), scale.number(value)) for value in marks], right)
    for i, one in enumerate(lines):
        points = [(x(point.at_s), y(point.offered_pps)) for point in one.points]
        body.append(polyline(points, class_=f"curve thin l{i % STYLES + 1}"))
    peak = max(every, key=lambda point: point.offered_pps)
    tip = title(f"at most {pps(peak.offered_pps)}, at {significant(peak.at_s)} s")
    body.append(rect(LEFT, TOP, right - LEFT, LOAD, tip, class_="hover"))
    return body


def _grid(marks: Sequence[tuple[float, str]], right: float) -> list[str]:
    body = []
    for at, label in marks:
        body.append(line(LEFT, at, right, at, class_="grid"))
        body.append(text(LEFT - 8, at + 4, label, class_="tick", text_anchor="end"))
    return body


def _lcores(
    lines: Sequence[OperatedLine], x: Map, right: float, top: float, end_s: float, narrow: bool
) -> list[str]:
    """Draws steps: a point holds until the next one."""
    marks = covering(max(point.lcores for one in lines for point in one.points) or 1.0, 4)
    y = linear(0.0, marks[-1], top + LCORES, top)
    body = [text(0, top - 12, "lcores", class_="tick")]
    body += _grid([(y(value), f"{value:g}") for value in marks], right)
    for i, one in enumerate(lines):
        path = [(x(one.points[0].at_s), y(one.points[0].lcores))]
        for before, after in pairwise(one.points):
            if after.lcores != before.lcores:
                path += [(x(after.at_s), y(before.lcores)), (x(after.at_s), y(after.lcores))]
        path.append((x(end_s), y(one.points[-1].lcores)))
        body.append(polyline(path, class_=f"curve l{i % STYLES + 1}"))
    if not narrow:
        body += _means(lines, right, top, end_s)
    return body


def _means(lines: Sequence[OperatedLine], right: float, top: float, end_s: float) -> list[str]:
    body = []
    for i, one in enumerate(lines):
        mean = f"{significant(_mean(one, end_s))} {one.name}"
        at = top + 10 + i * 15
        name = shorten(mean, 98, 12.5)
        body.append(text(right + 9, at, name, class_=f"name l{i % STYLES + 1}"))
    return body


def _broken(
    lines: Sequence[OperatedLine], x: Map, right: float, top: float, end_s: float
) -> list[str]:
    """A row for each policy: a red mark where windows were broken."""
    body = [text(0, top - 12, "windows that broke the SLO", class_="tick")]
    for i, one in enumerate(lines):
        row = top + i * MARKS
        name = shorten(one.name, LEFT - 10, 12.5)
        body.append(text(LEFT - 8, row + 13, name, class_="tick", text_anchor="end"))
        body.append(rect(LEFT, row + 3, right - LEFT, MARKS - 6, class_="bore"))
        ends = [*(point.at_s for point in one.points[1:]), end_s]
        for point, end in zip(one.points, ends, strict=True):
            if point.broken:
                wide = max(1.5, x(end) - x(point.at_s))
                tip = title(f"{one.name}, {significant(point.at_s)} s: {point.broken} windows")
                at = x(point.at_s)
                body.append(rect(at, row + 3, wide, MARKS - 6, tip, class_="broken"))
    return body


def _seconds(x: Map, end_s: float, bottom: float) -> list[str]:
    body = [
        text(x(value), bottom + 16, f"{value:g}", class_="tick", text_anchor="middle")
        for value in ticks(end_s, 6)
    ]
    middle = (x(0.0) + x(end_s)) / 2
    return [*body, text(middle, bottom + 34, "seconds", class_="tick", text_anchor="middle")]
