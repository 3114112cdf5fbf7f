# SPDX-License-Identifier: Apache-2.0
"""Bars as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.analyse.units import significant

from .bar_rows import Bar, BarRows, Panel
from .svg import (
    SMALL,
    Map,
    covering,
    el,
    fits,
    line,
    linear,
    picture,
    rect,
    shorten,
    text,
    text_width,
    title,
)

ROW, BAR = 28.0, 18.0
NAME = 19.0  # a line of text above a bar, where there is no room beside it
GAP = 14.0  # between groups
AXIS = 44.0
EDGE = 5.0  # the first tick's label is centred below it
SIZE, VALUE, NOTE = 13.0, 13.5, 12.0  # of names, values, notes; a value is bold, hence wider


class _Frame(NamedTuple):
    """Where a panel's bars are, and how long their values make them."""

    start: float  # of the names
    left: float  # of the bars
    right: float
    end: float  # of the values
    x: Map
    above: bool  # names and values stand above the bars
    marks: tuple[float, ...]


def draw(chart: BarRows, width: float) -> str:
    if not any(chart.bars(i) for i in range(len(chart.panels))):
        return ""
    beside = width >= SMALL and len(chart.panels) > 1
    names = 0.0
    if beside and any(group.name for group in chart.groups):
        names = min(width / 6, max(text_width(g.name, VALUE) for g in chart.groups) + 14)
    body, height, start = [], 0.0, names
    for i, panel in enumerate(chart.panels):
        whole = sum(one.share for one in chart.panels)
        room = (width - names) * panel.share / whole if beside else width
        frame = _frame(chart, i, start, start + room - (20 if i + 1 < len(chart.panels) else 0))
        drawn, bottom = _panel(chart, i, frame, 0.0 if beside else height, beside)
        body += drawn
        height = max(height, bottom)
        start += room if beside else 0.0
    return picture(width, height, chart.words(), *body)


def _frame(chart: BarRows, index: int, start: float, end: float) -> _Frame:
    bars, panel = chart.bars(index), chart.panels[index]
    label = max(text_width(bar.name, SIZE) for bar in bars)
    label += 10 if label else 0
    value = max(_value_width(chart, index, bar) for bar in bars) + 10
    above = label + value > 0.55 * (end - start)
    left, right = (start, end) if above else (start + label, end - value)
    left = max(left, start + EDGE)
    marks = covering(
        max(bar.reach for bar in bars) / panel.divisor, max(2, int((right - left) / 90))
    )
    last = text_width(f"{marks[-1]:g}", NOTE) / 2
    right = min(right, end - last)
    x = linear(0, marks[-1] * panel.divisor, left, right)
    return _Frame(start, left, right, end, x, above, tuple(marks))


def _value_width(chart: BarRows, index: int, bar: Bar) -> float:
    return max(text_width(chart.text(index, bar), VALUE), text_width(bar.note, NOTE))


def _panel(
    chart: BarRows, index: int, frame: _Frame, top: float, beside: bool
) -> tuple[list[str], float]:
    """What a panel shows, and where it ends."""
    row = ROW + (NAME if frame.above else 0)
    body: list[str] = []
    first, y = top, top
    for group in chart.groups:
        bars = group.panels[index]
        if group.name:
            place = (0.0, y + ROW / 2 + 4.5) if beside else (frame.start, y + 14)
            if index == 0 or not beside:
                room = frame.start - 8 if beside else frame.end - frame.start
                shown = shorten(group.name, room, VALUE)
                body.append(text(*place, shown, class_="value"))
            y += 0 if beside else NAME + 2
        for bar in bars:
            body += _bar(chart, index, bar, frame, y)
            y += row
        most = max(len(some) for some in group.panels) if beside else len(bars)
        y += (most - len(bars)) * row + (GAP if group.name else 0)
    return [*_axis(chart.panels[index], frame, first, y), *body], y + AXIS


def _axis(panel: Panel, frame: _Frame, top: float, bottom: float) -> list[str]:
    body = []
    for mark in frame.marks:
        at = frame.x(mark * panel.divisor)
        body.append(line(at, top, at, bottom + 4, class_="grid"))
        body.append(text(at, bottom + 18, f"{mark:g}", class_="tick", text_anchor="middle"))
    half = min(text_width(panel.unit, NOTE) / 2, (frame.end - frame.start) / 2)
    middle = min(max((frame.left + frame.right) / 2, frame.start + half), frame.end - half)
    return [*body, text(middle, bottom + 35, panel.unit, class_="tick", text_anchor="middle")]


def _bar(chart: BarRows, index: int, bar: Bar, frame: _Frame, top: float) -> list[str]:
    panel, y = chart.panels[index], top
    value = chart.text(index, bar)
    if frame.above:
        room = frame.end - frame.start - text_width(value, VALUE) - text_width(bar.note, NOTE) - 24
        body = [text(frame.start, y + 14, shorten(bar.name, room, SIZE), class_="row")]
        body.append(_said(frame.end, y + 14, value, bar.note))
        y += NAME
    else:
        name = bar.name and shorten(bar.name, frame.left - frame.start - 8, SIZE)
        body = [text(frame.left - 8, y + 19, name, class_="row", text_anchor="end")] if name else []
        # Behind the last dot, never on it.
        after = frame.x(bar.reach) + 8
        body.append(text(after, y + (14 if bar.note else 19), value, class_="value"))
        if bar.note:
            body.append(text(after, y + 27, bar.note, class_="small"))
    middle = y + ROW / 2
    body += _pieces(bar.pieces, panel, frame.x, middle, bar.look)
    return [*body, *_interval(bar, frame.x, middle), *_dots(bar, frame.x, middle)]


def _said(end: float, y: float, value: str, note: str) -> str:
    strong = el("tspan", value, class_="strong")
    inner = f"{strong}  {note}" if note else strong
    return el("text", inner, x=end, y=y, class_="small", text_anchor="end")


def _pieces(
    pieces: Sequence[tuple[str, float, str]], panel: Panel, x: Map, middle: float, look: str
) -> list[str]:
    body, at = [], 0.0
    gap = 1 if len(pieces) > 1 else 0
    for name, value, fill in pieces:
        shown = significant(value / panel.divisor)
        left, width = x(at), x(at + value) - x(at)
        tip = title(f"{name}: {shown} {panel.unit}")
        style = f"{fill} {look}" if look != "sure" else fill
        rx = 0 if gap else 2
        body.append(rect(left, middle - BAR / 2, width - gap, BAR, tip, rx=rx, class_=style))
        if gap and fits(shown, width - 6, NOTE):
            body.append(
                text(
                    left + width / 2, middle + 4.5, shown, class_=f"in {fill}", text_anchor="middle"
                )
            )
        at += value
    return body


def _interval(bar: Bar, x: Map, middle: float) -> list[str]:
    if bar.interval is None:
        return []
    low, high = (x(value) for value in bar.interval)
    ends = [line(at, middle - 5, at, middle + 5, class_="range") for at in (low, high)]
    return [line(low, middle, high, middle, class_="range"), *ends]


def _dots(bar: Bar, x: Map, middle: float) -> list[str]:
    style = "dot" if bar.look == "sure" else "dot unsure"
    if bar.look == "other":
        return [rect(x(value) - 4, middle - 4, 8, 8, class_="dot") for value in bar.dots]
    return [el("circle", cx=x(value), cy=middle, r=3.6, class_=style) for value in bar.dots]
