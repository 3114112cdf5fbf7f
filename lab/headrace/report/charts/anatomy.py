# SPDX-License-Identifier: Apache-2.0
"""Mean latency in its parts: a bar for each trial, its parts one behind the other, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .svg import el, line, picture, rect, shorten, text, title

PARTS = ("generator", "switch", "queue", "scheduler", "VNF")
COLOURS = ("#8dbbe6", "#f0bf78", "#87cbae", "#c6a7e0", "#eba1ac")  # not classes: also in a file
ROW, BAR, TOP, RIGHT = 26.0, 16.0, 44.0, 80.0


class AnatomyStack(NamedTuple):
    name: str
    parts_us: tuple[float, ...]  # as PARTS


@dataclass(frozen=True)
class Anatomies:
    stacks: tuple[AnatomyStack, ...]
    kind: Literal["anatomies"] = "anatomies"

    def draw(self, width: float) -> str:
        return draw(self.stacks, width)


def draw(stacks: Sequence[AnatomyStack], width: float) -> str:
    if not stacks:
        return ""
    small = width < 500
    left, row = (4.0, ROW + 16) if small else (230.0, ROW)
    most = max(sum(stack.parts_us) for stack in stacks) or 1.0
    scale = (width - left - RIGHT) / most
    height = TOP + row * len(stacks) + 10
    body = _legend(left, 6.2 if small else 7.5)
    for i, stack in enumerate(stacks):
        y, x = TOP + row * i, left
        if small:
            body.append(text(x, y + 11, shorten(stack.name, width, 11), font_size=11.0))
            y += 16
        else:
            name = shorten(stack.name, left - 8, 11)
            body.append(text(left - 8, y + 12, name, text_anchor="end", font_size=11.0))
        for part, us, colour in zip(PARTS, stack.parts_us, COLOURS, strict=True):
            tip = title(f"{part}: {us:.4g} us")
            body.append(rect(x, y, us * scale, BAR, tip, fill=colour))
            x += us * scale
        body.append(text(x + 6, y + 12, f"{sum(stack.parts_us):.4g} us", font_size=11.0))
    body.append(line(left, TOP - 6, left, height - 8, stroke="#888888"))
    label = "Mean latency in parts: " + "; ".join(
        f"{stack.name}: " + ", ".join(
            f"{part} {us:.4g} us" for part, us in zip(PARTS, stack.parts_us, strict=True)
        )
        for stack in stacks
    )  # fmt: skip
    return picture(width, height, label, *body)


def _legend(left: float, character: float) -> list[str]:
    keys, x = [], left
    for part, colour in zip(PARTS, COLOURS, strict=True):
        keys.append(rect(x, 8, 12, 12, fill=colour))
        keys.append(text(x + 16, 18, part, font_size=12.0))
        x += 26 + character * len(part)
    return [el("g", *keys)]
