# SPDX-License-Identifier: Apache-2.0
"""Lines over a logarithmic axis: delays over sizes, cycles over entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.units import significant, size

from .svg import (
    decades,
    el,
    line,
    linear,
    logarithmic,
    picture,
    polyline,
    rect,
    shorten,
    text,
    text_width,
    ticks,
    title,
)

HEIGHT, TOP, BOTTOM, LEFT = 300.0, 22.0, 44.0, 58.0
TICK = 12.5  # px, of the labels of an axis, at most
STYLES = 6  # l1..l6 of the page's style sheet


class Series(NamedTuple):
    name: str
    points: tuple[tuple[float, float], ...]
    marks: bool = True  # a dot at each point: measured; without: computed


class Band(NamedTuple):
    """A stretch of the x axis with a name, as what fits into a cache."""

    name: str
    low: float
    high: float | None  # None: open


class Axes(NamedTuple):
    x: str
    y: str
    unit: Literal["plain", "count", "bytes"] = "plain"  # of x
    log_y: bool = False

    def label(self, value: float) -> str:
        if self.unit == "bytes":
            return size(value)
        return f"{value:g}" if self.unit == "plain" else f"{value:,.12g}".replace(",", " ")


@dataclass(frozen=True)
class Lines:
    series: tuple[Series, ...]
    axes: Axes
    bands: tuple[Band, ...] = ()
    kind: Literal["lines"] = "lines"

    def draw(self, width: float) -> str:
        return draw(self.series, self.axes, width, self.bands)


def draw(series: Sequence[Series], axes: Axes, width: float, bands: Sequence[Band] = ()) -> str:
    series = [s for s in series if s.points]
    if not series:
        return ""
    small = width < 500
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points]
    right = 12.0 if small else 130.0
    low, high = min(xs), max(max(xs), min(xs) * 1.01)
    x = logarithmic(low, high, LEFT, width - right)
    bottom = HEIGHT - BOTTOM
    if axes.log_y:
        floor = max(min(ys), 1e-9) * 0.8
        y, marks = logarithmic(floor, max(ys) * 1.25, bottom, TOP), decades(floor, max(ys) * 1.25)
    else:
        y, marks = linear(0, max(ys) * 1.08, bottom, TOP), ticks(max(ys) * 1.08, 5)
    body = []
    for i, band in enumerate(bands):
        start, end = x(max(band.low, low)), x(high if band.high is None else min(band.high, high))
        if end - start < 2:
            continue
        if i % 2:
            body.append(rect(start, TOP, end - start, bottom - TOP, class_="bore", stroke="none"))
        name = shorten(band.name, end - start - 4, 11.5)
        if len(name) > 1 or len(band.name) == 1:
            body.append(
                text((start + end) / 2, TOP - 6, name, class_="small", text_anchor="middle")
            )
    for value in marks:
        body.append(line(LEFT, y(value), width - right, y(value), class_="grid"))
        label = f"{value:,.12g}".replace(",", " ")
        body.append(text(LEFT - 8, y(value) + 4, label, class_="tick", text_anchor="end"))
    free = -1e9
    for value in _labels(low, high, axes):
        shown = axes.label(value)
        half = text_width(shown, TICK) / 2
        at = min(x(value), width - half)  # one at the right end is moved in
        if at - half > free:
            free = at + half + 10
            body.append(text(at, bottom + 17, shown, class_="tick", text_anchor="middle"))
    middle = (LEFT + width - right) / 2
    body.append(text(middle, HEIGHT - 6, axes.x, class_="tick", text_anchor="middle"))
    body.append(text(0, 10, axes.y, class_="tick"))
    for i, s in enumerate(series):
        style = f"l{i % STYLES + 1}"
        points = [(x(a), y(b)) for a, b in s.points]
        body.append(polyline(points, class_=f"curve {style}" + ("" if s.marks else " thin")))
        if s.marks:
            body += [_mark(s, a, b, x(a), y(b), axes, style) for a, b in s.points]
    if not small:
        body += _names(series, x(high), [y(s.points[-1][1]) for s in series])
    words = "; ".join(
        f"{s.name}: " + ", ".join(f"{axes.label(a)} {significant(b)}" for a, b in s.points[::4])
        for s in series
    )
    return picture(width, HEIGHT, f"{axes.y} over {axes.x}. {words}", *body)


def _labels(low: float, high: float, axes: Axes) -> list[float]:
    """Powers of two for bytes, of ten otherwise."""
    base = 2.0 if axes.unit == "bytes" else 10.0
    value, labelled = 1.0, []
    while value <= high * 1.0001:
        if value >= low * 0.9999:
            labelled.append(value)
        value *= base
    if base == 2.0:
        labelled = labelled[:: max(1, len(labelled) // 8)]
    elif len(labelled) < 3:
        labelled = decades(low, high) or [low, high]
    return labelled


def _mark(s: Series, a: float, b: float, at_x: float, at_y: float, axes: Axes, style: str) -> str:
    tip = title(f"{s.name}, {axes.label(a)}: {significant(b)}")
    return el("circle", tip, cx=at_x, cy=at_y, r=3, class_=f"point {style}")


def _names(series: Sequence[Series], at: float, heights: Sequence[float]) -> list[str]:
    """Names stand at the lines' ends, in their order, never on each other."""
    texts, free = [], TOP
    for i in sorted(range(len(series)), key=lambda i: heights[i]):
        y = max(heights[i], free)
        free = y + 15
        name = shorten(series[i].name, 106, 12.5)  # wide letters take more
        texts.append(text(at + 9, y + 4, name, class_=f"name l{i % STYLES + 1}"))
    return texts
