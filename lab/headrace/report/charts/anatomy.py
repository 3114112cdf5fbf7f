# SPDX-License-Identifier: Apache-2.0
"""Mean latency in its parts: a bar for each trial, its parts one behind the other, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .bar_rows import Bar, Piece
from .bars import Bars, fills, plain

PARTS = ("generator", "switch", "queue", "scheduler", "VNF")
FILLS = fills(PARTS)


class AnatomyStack(NamedTuple):
    name: str
    parts_us: tuple[float, ...]  # as PARTS


def anatomies(stacks: Sequence[AnatomyStack]) -> Bars:
    return plain([_bar(one) for one in stacks], "µs", "Mean latency in parts")


def _bar(one: AnatomyStack) -> Bar:
    pieces = zip(PARTS, one.parts_us, strict=True)
    return Bar(one.name, tuple(Piece(part, us, FILLS[part]) for part, us in pieces))
