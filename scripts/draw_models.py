# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/execution-models.svg: one chain as run-to-completion, pipeline and hybrid."""

from __future__ import annotations

import sys
from pathlib import Path

ROW, LEFT, BOX_W, BOX_H = 108, 150, 78, 40
INK, WATER, WHEEL, STONE, PALE = "#1b3a4b", "#2a9dc4", "#e07a3f", "#8a9aa3", "#eef6fa"

MODELS = [
    ("run-to-completion", "one segment, n replicas", [["ACL", "LB", "L3FWD"]], 2),
    ("pipeline", "one segment per function", [["ACL"], ["LB"], ["L3FWD"]], 1),
    ("hybrid", "any other partition", [["ACL"], ["LB", "L3FWD"]], 1),
]


def text(x: float, y: float, words: str, size: int = 13, colour: str = INK, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" {more}>{words}</text>'


def centred(x: float, y: float, words: str, size: int = 13, colour: str = INK) -> str:
    return text(x, y, words, size, colour, 'text-anchor="middle"')


def box(x: float, y: float, words: str, fill: str, colour: str = "#fff") -> str:
    shape = f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="5" fill="{fill}"/>'
    return shape + centred(x + BOX_W / 2, y + 25, words, 14, colour)


def ring(x: float, y: float) -> str:
    """A link: three cells of a queue."""
    cells = "".join(
        f'<rect x="{x + i * 9}" y="{y + 10}" width="8" height="20" fill="{WATER}"/>'
        for i in range(3)
    )
    return cells


def arrow(x1: float, x2: float, y: float) -> str:
    return (
        f'<line x1="{x1}" y1="{y}" x2="{x2 - 5}" y2="{y}" stroke="{WATER}" stroke-width="3"/>'
        f'<path d="M{x2 - 8},{y - 5} L{x2},{y} L{x2 - 8},{y + 5} z" fill="{WATER}"/>'
    )


def segment(
    x: float, y: float, functions: list[str], replicas: int, lcore: int
) -> tuple[str, float]:
    width = len(functions) * (BOX_W + 8) + 12
    parts = []
    for back in range(replicas - 1, -1, -1):
        shift = back * 6
        parts.append(
            f'<rect x="{x + shift}" y="{y - 18 - shift}" width="{width}" height="{BOX_H + 30}" '
            f'rx="8" fill="{PALE}" stroke="{STONE}"/>'
        )
    last = lcore + replicas - 1
    where = f"lcores {lcore}, {last}" if replicas > 1 else f"lcore {lcore}"
    parts.append(text(x + 8, y - 4, where, 11, STONE))
    for i, function in enumerate(functions):
        parts.append(box(x + 10 + i * (BOX_W + 8), y + 3, function, INK))
    return "".join(parts), x + width


def row(top: float, name: str, meaning: str, segments: list[list[str]], replicas: int) -> str:
    middle = top + BOX_H / 2 + 3
    parts = [
        text(10, top + 18, name, 15, INK, 'font-weight="bold"'),
        text(10, top + 36, meaning, 11),
    ]
    x: float = LEFT + 25
    parts.append(box(x, top + 3, "source", WHEEL))
    x += BOX_W
    lcore = 1
    for functions in segments:
        parts += [arrow(x, x + 18, middle), ring(x + 20, top + 3), arrow(x + 48, x + 64, middle)]
        drawn, x = segment(x + 64, top, functions, replicas, lcore)
        parts.append(drawn)
        x += (replicas - 1) * 6
        lcore += replicas
    parts += [arrow(x, x + 18, middle), ring(x + 20, top + 3), arrow(x + 48, x + 64, middle)]
    parts.append(box(x + 64, top + 3, "sink", WHEEL))
    return "".join(parts)


def picture() -> str:
    rows = [row(40 + i * ROW, *model) for i, model in enumerate(MODELS)]
    height = 40 + len(MODELS) * ROW - 30
    caption = text(
        10,
        height - 8,
        "A segment runs its functions to completion on one lcore; links (rings, ports) join "
        "segments. No function knows which model it runs in.",
        12,
        STONE,
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif">'
        f'<rect width="900" height="{height}" fill="#fff"/>{"".join(rows)}{caption}</svg>\n'
    )


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/execution-models.svg").write_text(
        picture()
    )
