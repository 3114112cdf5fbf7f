# SPDX-License-Identifier: Apache-2.0
"""Throughput per execution model: a bar to the median, a dot for each repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.summary import Summary
from headrace.analyse.units import SPACE, Scale, percent, pps, rate_scale
from headrace.record.identity import Origin

from .svg import Map, covering, el, line, linear, picture, rect, shorten, text, text_width, title

ROW, AXIS = 38.0, 26.0


class ThroughputBar(NamedTuple):
    name: str
    median: float
    each: tuple[float, ...]  # repetition
    verdict: str
    ground: Origin
    note: str

    @property
    def trusted(self) -> bool:
        return self.verdict == "ok"


@dataclass(frozen=True)
class Throughput:
    bars: tuple[ThroughputBar, ...]
    kind: Literal["throughput"] = "throughput"

    def draw(self, width: float) -> str:
        return draw(self.bars, width)


def of(summaries: Sequence[Summary]) -> Throughput:
    return Throughput(
        tuple(
            ThroughputBar(
                s.key.execution,
                s.throughput_pps.median,
                tuple(r.throughput_pps for r in s.results),
                s.verdict,
                s.key.ground,
                _note(s),
            )
            for s in summaries
        )
    )


def draw(bars: Sequence[ThroughputBar], width: float) -> str:
    if not bars:
        return ""
    small = width < 500
    largest = max(value for bar in bars for value in bar.each)
    scale = rate_scale(largest)
    left = min(120.0 if small else 190.0, max(text_width(bar.name, 13) for bar in bars) + 12)
    right = 92.0 if small else 150.0
    marks = covering(largest, 3 if small else 6)
    x = linear(0, marks[-1], left, width - right)
    height = ROW * len(bars) + AXIS
    body = []
    for value in marks:
        body.append(line(x(value), 0, x(value), height - AXIS + 4, class_="grid"))
        body.append(
            text(x(value), height - 8, scale.number(value, 2), class_="tick", text_anchor="middle")
        )
    body.append(text(width, height - 8, scale.unit, class_="tick", text_anchor="end"))
    for i, bar in enumerate(bars):
        body += _row(bar, i * ROW + ROW / 2, left, x, scale)
    words = "; ".join(f"{bar.name}: {scale.text(bar.median)} ({bar.verdict})" for bar in bars)
    return picture(width, height, f"Median throughput. {words}", *body)


def _row(bar: ThroughputBar, middle: float, left: float, x: Map, scale: Scale) -> list[str]:
    state = "bar" if bar.trusted else "bar unsure"
    if bar.ground != "measured":
        state = "bar other"
    tip = title(f"{bar.name}: median {scale.text(bar.median, 4)}, {bar.verdict}")
    name = shorten(bar.name, left - 10, 13)
    after = x(max(bar.each)) + 10  # the figure stands after the last dot, never on it
    return [
        text(left - 10, middle + 4, name, class_="row", text_anchor="end"),
        rect(left, middle - 9, x(bar.median) - left, 18, tip, rx=2, class_=state),
        *(_dot(x(value), middle, bar) for value in bar.each),
        text(after, middle - 1, scale.text(bar.median), class_="value"),
        text(after, middle + 12, bar.note, class_="small"),
    ]


def _note(summary: Summary) -> str:
    if summary.key.ground != "measured":
        return summary.key.ground
    if summary.lower_bound:
        return f"≥ {pps(summary.offered_pps)} offered" if summary.by_policy else "at least"
    if not summary.trusted:
        return summary.verdict
    wide = summary.throughput_pps.relative
    return "one repetition" if wide is None else f"spread{SPACE}{percent(wide, 2)}"


def _dot(x: float, y: float, bar: ThroughputBar) -> str:
    if bar.ground == "predicted":
        return el("path", d=f"M{x:.1f},{y - 6}l6,6l-6,6l-6,-6Z", class_="dot")
    if bar.ground == "published":
        return rect(x - 5, y - 5, 10, 10, class_="dot")
    return el("circle", cx=x, cy=y, r=4, class_="dot" if bar.trusted else "dot unsure")
