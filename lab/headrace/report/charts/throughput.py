# SPDX-License-Identifier: Apache-2.0
"""Throughput per execution model: a bar to the median, a dot for each repetition."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyse.summary import Summary
from headrace.analyse.units import SPACE, percent, pps, rate_scale

from .svg import covering, el, line, linear, picture, rect, shorten, text, text_width, title

ROW, AXIS = 38.0, 26.0


def draw(summaries: Sequence[Summary], width: float) -> str:
    if not summaries:
        return ""
    small = width < 500
    largest = max(s.throughput_pps.max for s in summaries)
    scale = rate_scale(largest)
    names = [_name(s) for s in summaries]
    left = min(120.0 if small else 190.0, max(text_width(n, 13) for n in names) + 12)
    right = 92.0 if small else 150.0
    marks = covering(largest, 3 if small else 6)
    x = linear(0, marks[-1], left, width - right)
    height = ROW * len(summaries) + AXIS
    body = []
    for value in marks:
        body.append(line(x(value), 0, x(value), height - AXIS + 4, class_="grid"))
        body.append(
            text(x(value), height - 8, scale.number(value, 2), class_="tick", text_anchor="middle")
        )
    body.append(text(width, height - 8, scale.unit, class_="tick", text_anchor="end"))
    for i, (summary, name) in enumerate(zip(summaries, names, strict=True)):
        middle = i * ROW + ROW / 2
        median = summary.throughput_pps.median
        state = "bar" if summary.trusted else "bar unsure"
        if summary.key.ground != "measured":
            state = "bar other"
        tip = f"{name}: median {scale.text(median, 4)}, {summary.verdict}"
        body.append(
            text(
                left - 10, middle + 4, shorten(name, left - 10, 13), class_="row", text_anchor="end"
            )
        )
        body.append(rect(left, middle - 9, x(median) - left, 18, title(tip), rx=2, class_=state))
        body += [_dot(x(r.throughput_pps), middle, summary) for r in summary.results]
        # The figure stands after the last dot, never on it.
        after = x(summary.throughput_pps.max) + 10
        body.append(text(after, middle - 1, scale.text(median), class_="value"))
        body.append(text(after, middle + 12, _note(summary), class_="small"))
    words = "; ".join(
        f"{n}: {scale.text(s.throughput_pps.median)} ({s.verdict})"
        for n, s in zip(names, summaries, strict=True)
    )
    return picture(width, height, f"Median throughput. {words}", *body)


def _name(summary: Summary) -> str:
    return summary.key.execution


def _note(summary: Summary) -> str:
    if summary.key.ground != "measured":
        return summary.key.ground
    if summary.lower_bound:
        return f"≥ {pps(summary.offered_pps)} offered" if summary.by_policy else "at least"
    if not summary.trusted:
        return summary.verdict
    wide = summary.throughput_pps.relative
    return "one repetition" if wide is None else f"spread{SPACE}{percent(wide, 2)}"


def _dot(x: float, y: float, summary: Summary) -> str:
    if summary.key.ground == "predicted":
        return el("path", d=f"M{x:.1f},{y - 6}l6,6l-6,6l-6,-6Z", class_="dot")
    if summary.key.ground == "published":
        return rect(x - 5, y - 5, 10, 10, class_="dot")
    return el("circle", cx=x, cy=y, r=4, class_="dot" if summary.trusted else "dot unsure")
