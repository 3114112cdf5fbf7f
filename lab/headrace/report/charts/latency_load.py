# SPDX-License-Identifier: Apache-2.0
"""Latency over load, from fixed loads: where the queues begin to fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.summary import Summary
from headrace.analyse.units import Scale, loss, ns, rate_scale, time_scale

from .svg import (
    Map,
    decades,
    el,
    line,
    linear,
    logarithmic,
    picture,
    polyline,
    shorten,
    spaced,
    text,
    ticks,
    title,
)

HEIGHT, BOTTOM, TOP, LEFT = 280.0, 40.0, 14.0, 58.0
LINES = 6
NAME = 15.0  # pixels from one name to the next
PERCENTILES = ("p50", "p99")


class LoadPoint(NamedTuple):
    load_pps: float
    p50_ns: float
    p99_ns: float
    loss_ratio: float
    verdict: str


class LoadSeries(NamedTuple):
    name: str
    points: tuple[LoadPoint, ...]  # by load


@dataclass(frozen=True)
class Loads:
    series: tuple[LoadSeries, ...]
    kind: Literal["loads"] = "loads"

    def draw(self, width: float) -> str:
        return draw(self.series, width)


def series(summaries: Sequence[Summary]) -> tuple[LoadSeries, ...]:
    """One per execution that was measured at two fixed loads or more."""
    points: dict[str, list[LoadPoint]] = {}
    for s in summaries:
        if s.key.load_pps is not None and all(p in s.latency_ns for p in PERCENTILES):
            p50, p99 = (s.latency_ns[p].median for p in PERCENTILES)
            points.setdefault(s.key.execution, []).append(
                LoadPoint(s.key.load_pps, p50, p99, s.loss_ratio.median, s.verdict)
            )
    return tuple(
        LoadSeries(name, tuple(sorted(some))) for name, some in points.items() if len(some) > 1
    )


def draw(given: Sequence[LoadSeries], width: float) -> str:
    if not given:
        return ""
    small = width < 500
    right = 14.0 if small else 120.0
    points = [p for one in given for p in one.points]
    most = max(p.load_pps for p in points)
    low = max(1.0, min(p.p50_ns for p in points) * 0.8)
    high = max(p.p99_ns for p in points) * 1.25
    scale = rate_scale(most)
    x = linear(0, most, LEFT, width - right)
    y = logarithmic(low, high, HEIGHT - BOTTOM, TOP)
    body = _grid(x, y, low, high, most, scale, width - right)
    order = sorted(range(len(given)), key=lambda i: -_last(given[i]))
    places = spaced([y(_last(given[i])) for i in order], NAME, TOP, HEIGHT - BOTTOM)
    for i, at in zip(order, places, strict=True):
        colour = f"l{i % LINES + 1}"
        body += _lines(given[i], x, y, colour, scale)
        if not small:
            name = shorten(given[i].name, 108, 12.5)
            body.append(text(width - right + 10, at + 4, name, class_=f"name {colour}"))
    words = "; ".join(
        f"{one.name}: p99 {ns(one.points[0].p99_ns)} at "
        f"{scale.text(one.points[0].load_pps)}, {ns(_last(one))} at "
        f"{scale.text(one.points[-1].load_pps)}"
        for one in given
    )
    return picture(width, HEIGHT, f"Latency over load. {words}", *body)


def _last(one: LoadSeries) -> float:
    return one.points[-1].p99_ns


def _grid(
    x: Map, y: Map, low: float, high: float, most: float, scale: Scale, end: float
) -> list[str]:
    body = []
    for value in decades(low, high):
        shown = time_scale(value)
        label = f"{value / shown.divisor:g} {shown.unit}"
        body.append(line(LEFT, y(value), end, y(value), class_="grid"))
        body.append(text(LEFT - 8, y(value) + 4, label, class_="tick", text_anchor="end"))
    for value in ticks(most, 5):
        at, label = x(value), scale.number(value, 2)
        body.append(line(at, TOP, at, HEIGHT - BOTTOM, class_="grid"))
        body.append(text(at, HEIGHT - BOTTOM + 18, label, class_="tick", text_anchor="middle"))
    label = f"load, {scale.unit}"
    body.append(text((LEFT + end) / 2, HEIGHT - 4, label, class_="tick", text_anchor="middle"))
    return body


def _lines(one: LoadSeries, x: Map, y: Map, colour: str, scale: Scale) -> list[str]:
    body = []
    for percentile in PERCENTILES:
        times = [p.p99_ns if percentile == "p99" else p.p50_ns for p in one.points]
        path = [(x(p.load_pps), y(time)) for p, time in zip(one.points, times, strict=True)]
        weight = "curve" if percentile == "p99" else "curve thin"
        body.append(polyline(path, class_=f"{weight} {colour}"))
        for (cx, cy), time, p in zip(path, times, one.points, strict=True):
            tip = (
                f"{one.name}, {scale.text(p.load_pps)}: {percentile} {ns(time)}, "
                f"loss {loss(p.loss_ratio)}, {p.verdict}"
            )
            state = "point" if p.verdict == "ok" else "point doubtful"
            body.append(el("circle", title(tip), cx=cx, cy=cy, r=3.2, class_=f"{state} {colour}"))
    return body
