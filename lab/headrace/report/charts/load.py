# SPDX-License-Identifier: Apache-2.0
"""Latency over load, from fixed loads: where the queues begin to fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class Series(NamedTuple):
    name: str
    points: list[Summary]  # by load; each has a latency


def series(summaries: Sequence[Summary]) -> list[Series]:
    """One per execution that was measured at two fixed loads or more."""
    found: dict[str, list[Summary]] = {}
    for s in summaries:
        if s.key.load_pps is not None and all(p in s.latency_ns for p in PERCENTILES):
            found.setdefault(s.key.execution, []).append(s)
    return [
        Series(name, sorted(points, key=lambda s: s.key.load_pps or 0.0))
        for name, points in found.items()
        if len(points) > 1
    ]


def draw(given: Sequence[Series], width: float) -> str:
    if not given:
        return ""
    small = width < 500
    right = 14.0 if small else 120.0
    points = [s for one in given for s in one.points]
    most = max(s.key.load_pps or 0.0 for s in points)
    low = max(1.0, min(s.latency_ns["p50"].median for s in points) * 0.8)
    high = max(s.latency_ns["p99"].median for s in points) * 1.25
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
        f"{one.name}: p99 {ns(one.points[0].latency_ns['p99'].median)} at "
        f"{scale.text(one.points[0].key.load_pps)}, {ns(_last(one))} at "
        f"{scale.text(one.points[-1].key.load_pps)}"
        for one in given
    )
    return picture(width, HEIGHT, f"Latency over load. {words}", *body)


def _last(one: Series) -> float:
    return one.points[-1].latency_ns["p99"].median


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


def _lines(one: Series, x: Map, y: Map, colour: str, scale: Scale) -> list[str]:
    body = []
    for percentile in PERCENTILES:
        path = [(x(s.key.load_pps or 0.0), y(s.latency_ns[percentile].median)) for s in one.points]
        weight = "curve" if percentile == "p99" else "curve thin"
        body.append(polyline(path, class_=f"{weight} {colour}"))
        for (cx, cy), s in zip(path, one.points, strict=True):
            tip = (
                f"{one.name}, {scale.text(s.key.load_pps)}: {percentile} "
                f"{ns(s.latency_ns[percentile].median)}, loss {loss(s.loss_ratio.median)}, "
                f"{s.verdict}"
            )
            state = "point" if s.trusted else "point doubtful"
            body.append(el("circle", title(tip), cx=cx, cy=cy, r=3.2, class_=f"{state} {colour}"))
    return body
