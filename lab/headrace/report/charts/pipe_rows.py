# SPDX-License-Identifier: Apache-2.0
"""A chain's segments in packets' order, as a pipe that goes on in the next row: packets/s of each,
how busy its lcore is, what it drops. Two hundred segments are as legible as two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from headrace.analyse.units import Scale, percent, pps, rate_scale

from .svg import line, picture, rect, shorten, text, title

MANY = 24  # from so many stretches on, their lcores are told by a tip alone
LEAST_WIDE, LEAST_NARROW = 98.0, 84.0  # pixels that a stretch's texts need
BOX, NAME, GAP = 40.0, 18.0, 16.0


@dataclass(frozen=True)
class Stretch:
    """A segment with all its replicas."""

    name: str
    about: str  # its functions
    cpus: tuple[int, ...]
    pps: float
    busy: float | None  # of its busiest lcore; None: not told
    dropped_pps: float = 0.0
    tester: bool = False


@dataclass(frozen=True)
class Course:
    stretches: tuple[Stretch, ...]
    kind: Literal["course"] = "course"

    def draw(self, width: float) -> str:
        return draw(self.stretches, width)


def draw(stretches: Sequence[Stretch], width: float) -> str:
    if not stretches:
        return ""
    least = LEAST_NARROW if width < 500 else LEAST_WIDE
    columns = min(len(stretches), int(width // least))
    columns = ceil(len(stretches) / ceil(len(stretches) / columns))  # rows of nearly one length
    each = (width - 2) / columns
    many = len(stretches) > MANY
    below = 15.0 if many else 31.0
    height = NAME + BOX + below + GAP
    scale = rate_scale(max(s.pps for s in stretches))
    body = []
    for i, stretch in enumerate(stretches):
        x, y = 1 + i % columns * each, i // columns * height
        body.append(_stretch(stretch, x, y, each, scale, many))
    words = ", ".join(f"{s.name} {scale.text(s.pps)}" for s in stretches)
    rows = ceil(len(stretches) / columns)
    return picture(width, rows * height, f"Packets per second: {words}", *body)


def _stretch(s: Stretch, x: float, y: float, width: float, scale: Scale, many: bool) -> str:
    middle, top = x + width / 2, y + NAME
    filled = BOX * min(1.0, s.busy or 0.0)
    dropping = s.dropped_pps > 0
    style = "bore other" if s.tester else "bore"
    texts = [
        text(middle, y + 13, shorten(s.name, width - 6, 12.5), class_="part", text_anchor="middle"),
        text(middle, top + BOX / 2 + 5, scale.text(s.pps), class_="nf", text_anchor="middle"),
    ]
    if dropping:
        lost = f"−{pps(s.dropped_pps, 2)}"
        texts.append(
            text(middle, top + BOX + 15, lost, class_="capacity narrow", text_anchor="middle")
        )
    elif s.busy is not None:
        busy = f"{percent(s.busy, 2)} busy"
        texts.append(text(middle, top + BOX + 13, busy, class_="small", text_anchor="middle"))
    if not many and s.cpus:
        lcores = (
            f"lcore {', '.join(map(str, s.cpus))}" if len(s.cpus) < 4 else f"{len(s.cpus)} lcores"
        )
        texts.append(text(middle, top + BOX + 29, lcores, class_="small", text_anchor="middle"))
    red = line(x, top + BOX, x + width, top + BOX, class_="squeeze") if dropping else ""
    return "".join(
        (
            rect(x, top, width, BOX, class_=style),
            rect(x, top + BOX - filled, width, filled, class_="water"),
            red,
            *texts,
            rect(x, y, width, NAME + BOX, title(_tip(s)), class_="hover"),
        )
    )


def _tip(s: Stretch) -> str:
    parts = [s.name, s.about, f"{pps(s.pps)}"]
    if s.cpus:
        parts.append(f"lcore {', '.join(map(str, s.cpus))}")
    if s.busy is not None:
        parts.append(f"{percent(s.busy)} busy")
    if s.dropped_pps:
        parts.append(f"drops {pps(s.dropped_pps)}")
    return "\n".join(part for part in parts if part)
