# SPDX-License-Identifier: Apache-2.0
"""Latency by percentile on an axis of nines, as HdrHistogram plots it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hdrh.histogram import HdrHistogram

from headrace.analyse.units import ns, significant, time_scale
from headrace.record import latency
from headrace.record.rows import Result

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
    title,
)

HEIGHT, BOTTOM, TOP = 300.0, 40.0, 14.0
NINES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999)
TICK = 6.5  # pixels that a digit of a tick's label takes
NAME = 15.0  # pixels from one name to the next
LINES = 6  # distinct line styles of the page's style sheet


class PercentileCurve(NamedTuple):
    name: str
    points: list[tuple[float, float]]  # quantile, ns
    packets: int


@dataclass(frozen=True)
class Percentiles:
    curves: tuple[PercentileCurve, ...]
    floor_ns: float | None
    kind: Literal["percentiles"] = "percentiles"

    def draw(self, width: float) -> str:
        return draw(self.curves, self.floor_ns, width)


def curve(name: str, results: Sequence[Result]) -> PercentileCurve | None:
    """The repetitions' histograms merged; None when no latency was taken."""
    return curve_of(name, [r.latency_hdr for r in results if r.latency_hdr], _extremes(results))


def curve_of(
    name: str, payloads: Sequence[str], extremes: tuple[float, float]
) -> PercentileCurve | None:
    """`extremes`: the smallest and the largest value, ns."""
    if not payloads:
        return None
    merged = HdrHistogram.decode(payloads[0])
    for payload in payloads[1:]:
        merged.decode_and_add(payload)
    packets = merged.get_total_count()
    if packets < 1:
        return None
    # Beyond 1 - 1/n the curve would only repeat the maximum.
    last = -math.log10(1 / packets) if packets > 1 else 0.1
    steps = 160
    quantiles = [1 - 10 ** -(last * i / steps) for i in range(steps + 1)]
    values = latency.percentiles(merged, quantiles)
    # A bucket's value is its upper end; the extremes are known exactly, and the tables have them.
    low, high = extremes
    points = [(q, min(max(v, low), high)) for q, v in zip(quantiles, values, strict=True)]
    if math.isfinite(high):
        points[-1] = (points[-1][0], high)
    return PercentileCurve(name, points, packets)


def _extremes(results: Sequence[Result]) -> tuple[float, float]:
    taken = [r.latency_ns for r in results if r.latency_ns is not None]
    return (
        min((t.min for t in taken), default=0.0),
        max((t.max for t in taken), default=math.inf),
    )


def draw(curves: Sequence[PercentileCurve], floor_ns: float | None, width: float) -> str:
    if not curves:
        return ""
    small = width < 500
    low = min(min(v for _, v in c.points) for c in curves)
    low = max(1.0, min(low, floor_ns or low) * 0.8)
    high = max(max(v for _, v in c.points) for c in curves)
    high = max(high, floor_ns or 0.0) * 1.25
    furthest = max(_nines(c.points[-1][0]) for c in curves)
    left, right = 58.0, (14.0 if small else 120.0)
    x = linear(0, furthest, left, width - right)
    y = logarithmic(low, high, HEIGHT - BOTTOM, TOP)
    body = [*_grid(x, y, low, high, furthest, width - right, left, small)]
    if floor_ns:
        at = y(floor_ns)
        body.append(line(left, at, width - right, at, class_="floor"))
        label = f"tester's own floor {ns(floor_ns)}"  # on the right, where curves are far above it
        below = at + 20 < HEIGHT - BOTTOM  # else it would stand on the axis
        place = at + 14 if below else at - 6
        body.append(text(width - right - 4, place, label, class_="small", text_anchor="end"))
    for i, c in enumerate(curves):
        points = [(x(_nines(q)), y(v)) for q, v in c.points]
        body.append(polyline(points, class_=f"curve l{i % LINES + 1}"))
        body += _marks(c, x, y, i)
    if not small:
        body += _names(curves, x, y, width - right)
    words = "; ".join(
        f"{c.name}: median {ns(_at(c, 0.5))}, p99 {ns(_at(c, 0.99))}, most {ns(c.points[-1][1])}"
        for c in curves
    )
    return picture(width, HEIGHT, f"Latency by percentile. {words}", *body)


def _nines(quantile: float) -> float:
    return -math.log10(max(1 - quantile, 1e-12))


def _at(c: PercentileCurve, quantile: float) -> float:
    return next((v for q, v in c.points if q >= quantile), c.points[-1][1])


def _names(curves: Sequence[PercentileCurve], x: Map, y: Map, end: float) -> list[str]:
    """Names stand in a column beside the plot, in the order of the lines' ends, never on each other
    or on a line: curves of fewer packets end earlier, and a name there would stand on the
    others."""
    order = sorted(range(len(curves)), key=lambda i: y(curves[i].points[-1][1]))
    places = spaced([y(curves[i].points[-1][1]) for i in order], NAME, TOP, HEIGHT - BOTTOM)
    texts = []
    for i, at in zip(order, places, strict=True):
        quantile, value = curves[i].points[-1]
        colour = f"l{i % LINES + 1}"
        texts.append(line(x(_nines(quantile)) + 2, y(value), end + 6, at, class_="grid"))
        texts.append(
            text(end + 9, at + 4, shorten(curves[i].name, 108, 12.5), class_=f"name {colour}")
        )
    return texts


def _grid(
    x: Map, y: Map, low: float, high: float, furthest: float, end: float, left: float, small: bool
) -> list[str]:
    body = []
    for value in decades(low, high):
        body.append(line(left, y(value), end, y(value), class_="grid"))
        shown = time_scale(value)
        digits = f"{value / shown.divisor:g} {shown.unit}"
        body.append(text(left - 8, y(value) + 4, digits, class_="tick", text_anchor="end"))
    free = left  # where the next label may begin
    for quantile in NINES:
        if _nines(quantile) > furthest + 1e-9:
            break
        at = x(_nines(quantile))
        body.append(line(at, TOP, at, HEIGHT - BOTTOM, class_="grid"))
        label = "0" if not quantile else f"{quantile * 100:.7f}".rstrip("0").rstrip(".")
        half = TICK * len(label) / 2
        if not (small and quantile == 0.0) and at - half >= free - (0 if quantile else half):
            free = at + half + TICK
            body.append(text(at, HEIGHT - BOTTOM + 18, label, class_="tick", text_anchor="middle"))
    body.append(
        text((left + end) / 2, HEIGHT - 4, "percentile", class_="tick", text_anchor="middle")
    )
    return body


def _marks(c: PercentileCurve, x: Map, y: Map, i: int) -> list[str]:
    marks = []
    for quantile in (0.5, 0.9, 0.99, 0.999, 0.9999):
        if quantile > c.points[-1][0]:
            break
        value = _at(c, quantile)
        tip = f"{c.name}, p{significant(quantile * 100)}: {ns(value)}"
        marks.append(
            el(
                "circle",
                title(tip),
                cx=x(_nines(quantile)),
                cy=y(value),
                r=3.2,
                class_=f"point l{i % LINES + 1}",
            )
        )
    return marks
