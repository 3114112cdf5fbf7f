# SPDX-License-Identifier: Apache-2.0
"""The little of SVG that the charts need: elements as escaped text, scales, ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

WIDTHS = (360, 820, 1240, 1720)  # drawing widths in CSS pixels, from a phone to a wide window
NARROW, WIDE = WIDTHS[:2]
SMALL = 600  # narrower pictures have their parts one below the other
CHARACTER = 0.58  # mean width of a system sans-serif character, in font sizes

Map = Callable[[float], float]


def el(tag: str, *children: str, **attributes: str | float | None) -> str:
    """One element. `class_` and `stroke_width` become class and stroke-width."""
    pairs = (
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{''.join(pairs)}>{''.join(children)}</{tag}>"


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, **attributes: str | float | None) -> str:
    return el("text", escape(content), x=x, y=y, **attributes)


def title(content: str) -> str:
    return el("title", escape(content))


def picture(width: float, height: float, label: str, *children: str) -> str:
    """`label` says in words what the picture shows, for those who do not see it."""
    return el(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None) -> str:
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, w: float, h: float, *children: str, **attributes: str | float) -> str:
    return el("rect", *children, x=x, y=y, width=max(0.0, w), height=max(0.0, h), **attributes)


def fits(content: str, width: float, size: float) -> bool:
    return len(content) * size * CHARACTER <= width


def text_width(content: str, size: float) -> float:
    return len(content) * size * CHARACTER


def shorten(content: str, width: float, size: float) -> str:
    room = int(width / (size * CHARACTER))
    return content if len(content) <= room else content[: max(1, room - 1)] + "…"


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near to the wanted ones (ascending) as a gap between them and the range allow.
    Too many for the range stand closer."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    places: list[float] = []
    for i, at in enumerate(wanted):
        last = high - gap * (len(wanted) - 1 - i)  # the others below need room as well
        first = places[-1] + gap if places else low
        places.append(max(first, min(at, last)))
    return places


def linear(low: float, high: float, start: float, end: float) -> Map:
    span = (high - low) or 1.0
    return lambda v: start + (v - low) / span * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Map:
    inner = linear(math.log10(low), math.log10(high), start, end)
    return lambda v: inner(math.log10(max(v, low)))


def ticks(high: float, about: int) -> list[float]:
    """Round values from 0 to at most `high`, about so many (1, 2 or 5 times a power of ten)."""
    if high <= 0:
        return [0.0]
    step = _step(high, about)
    return [i * step for i in range(int(high / step + 1e-9) + 1)]


def covering(high: float, about: int) -> list[float]:
    """Such ticks, the last of which is at `high` or beyond: no point lies outside the axis."""
    values = ticks(high, about)
    if values[-1] < high * (1 - 1e-9):
        values.append(len(values) * _step(high, about))
    return values


def _step(high: float, about: int) -> float:
    raw = high / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


def decades(low: float, high: float) -> list[float]:
    """Powers of ten with 2 and 5 between when the range is short."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    values = [m * 10.0**e for e in range(first, last + 1) for m in steps]
    return [v for v in values if low <= v <= high]


def polyline(points: Sequence[tuple[float, float]], **attributes: str | float | None) -> str:
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return el("path", d=path, fill="none", **attributes)
