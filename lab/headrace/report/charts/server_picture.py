# SPDX-License-Identifier: Apache-2.0
"""Servers with their sockets, caches, lcores and ports, and what chains take of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.analyse.units import percent

from .svg import line, picture, rect, shorten, text, title

_CELL, _HIGH, _GAP = 30.0, 46.0, 5.0
_TITLE, _PAD = 22.0, 10.0


@dataclass(frozen=True)
class DrawnLcore:
    """`parts`: share of its time by the page's fill, and the chain's name."""

    cpu: int
    parts: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class DrawnCache:
    """A last-level cache with its lcores."""

    name: str
    lcores: tuple[DrawnLcore, ...]
    ports: tuple[tuple[str, float], ...]  # of its socket: name and share in use


@dataclass(frozen=True)
class DrawnServer:
    name: str
    caches: tuple[DrawnCache, ...]


@dataclass(frozen=True)
class Sockets:
    servers: tuple[DrawnServer, ...]
    kind: Literal["sockets"] = "sockets"

    def draw(self, width: float) -> str:
        """Caches beside each other where there is room, else one below the other."""
        body, y = [], 0.0
        for server in self.servers:
            parts, high = _server(server, width, y)
            body += parts
            y += high + 14
        words = "; ".join(
            f"{server.name}, {cache.name}: {_words(cache.lcores)}"
            for server in self.servers
            for cache in server.caches
        )
        return picture(width, max(y, 1.0), words, *body)


def _words(lcores: Sequence[DrawnLcore]) -> str:
    used = [one for one in lcores if one.parts]
    return f"{len(used)} of {len(lcores)} lcores used"


def _server(server: DrawnServer, width: float, top: float) -> tuple[list[str], float]:
    room = width - 2 * _PAD
    beside = 2 if len(server.caches) > 1 and room >= 2 * (6 * (_CELL + _GAP) + 2 * _PAD) else 1
    each = (room - (beside - 1) * _PAD) / beside
    body, y = [text(_PAD, top + 15, server.name, class_="part")], top + _TITLE
    for row in range(0, len(server.caches), beside):
        highest = 0.0
        for i, cache in enumerate(server.caches[row : row + beside]):
            parts, high = _cache(cache, _PAD + i * (each + _PAD), y, each)
            body += parts
            highest = max(highest, high)
        y += highest + _PAD
    frame = rect(0.5, top + 0.5, width - 1, y - top - 1, rx=6, class_="box")
    return [frame, *body], y - top


def _cache(cache: DrawnCache, x: float, y: float, width: float) -> tuple[list[str], float]:
    body = [text(x + _PAD, y + 15, cache.name, class_="small")]
    at = x + width - _PAD
    for name, share in reversed(cache.ports):
        label = f"{name}: {percent(share, 2)}"
        at -= len(label) * 6.4 + 10
        tip = title(f"{name}: {percent(share)} of it in use")
        body.append(rect(at, y + 3, len(label) * 6.4 + 6, 16, tip, rx=3, class_="box"))
        body.append(text(at + 4, y + 15, label, class_="small"))
    columns = max(1, int((width - 2 * _PAD + _GAP) // (_CELL + _GAP)))
    for i, lcore in enumerate(cache.lcores):
        row, column = divmod(i, columns)
        left = x + _PAD + column * (_CELL + _GAP)
        body += _lcore(lcore, left, y + _TITLE + 4 + row * (_HIGH + 16))
    rows = -(-len(cache.lcores) // columns)
    high = _TITLE + 4 + rows * (_HIGH + 16) + 2
    return [rect(x, y, width, high, rx=4, class_="box"), *body], high


def _lcore(lcore: DrawnLcore, x: float, y: float) -> list[str]:
    """Filled from below as far as it is busy."""
    body = [rect(x, y, _CELL, _HIGH, class_="well")]
    level = y + _HIGH
    for fill, _, share in lcore.parts:
        high = share * _HIGH
        level -= high
        body.append(rect(x, level, _CELL, high, class_=fill))
    total = sum(share for _, _, share in lcore.parts)
    told = [f"lcore {lcore.cpu}: {percent(total, 3) if lcore.parts else 'idle'}"]
    told += [f"{name}: {percent(share, 3)}" for _, name, share in lcore.parts]
    tip = title("\n".join(told))
    body.append(rect(x, y, _CELL, _HIGH, tip, class_="hover"))
    body.append(line(x, y + _HIGH, x + _CELL, y + _HIGH, class_="grid"))
    number = shorten(str(lcore.cpu), _CELL, 11.5)
    body.append(text(x + _CELL / 2, y + _HIGH + 12, number, class_="small", text_anchor="middle"))
    return body
