# SPDX-License-Identifier: Apache-2.0
"""Chain graphs as pictures: box characters for a terminal, SVG for a page."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from headrace.graph.enumerate import Graph
from headrace.graph.knowledge import Category

BOX_HEIGHT, GAP_X, GAP_Y, CHARACTER, MARGIN = 26, 34, 12, 7.3, 16
COLOURS = {
    Category.LEAF: "#f3e3f7",
    Category.NETWORK: "#dcebfa",
    Category.HOST: "#fdebd3",
    Category.GENERAL: "#e2f2e0",
    Category.UNCLASSIFIED: "#eeeeee",
}


@dataclass(frozen=True)
class Place:
    """One place of a graph: a VNF, or several in parallel, and what is below."""

    names: tuple[str, ...]
    below: tuple[Place, ...]

    @property
    def label(self) -> str:
        return " ∥ ".join(self.names)


def tree(graph: Graph) -> Place:
    """The graph as nested places."""
    children: dict[str | None, list[str]] = {}
    for name, parent in graph.items():
        children.setdefault(parent, []).append(name)

    def place(name: str) -> Place:
        return Place(tuple(name.split("|")), tuple(map(place, children.get(name, ()))))

    return place(children[None][0])


def one_line(graph: Graph, leaves: Container[str] = ()) -> str:
    """`nat → ip-firewall (ids) → l7-cache`: the longest way on, what hangs beside it in
    parentheses; a leaf is never the way on."""

    def text(place: Place) -> str:
        beside = sorted(place.below, key=lambda p: (p.names[0] not in leaves, _size(p)))
        main = beside.pop() if beside and beside[-1].names[0] not in leaves else None
        branches = "".join(f" ({text(side)})" for side in beside)
        return f"{place.label}{branches}" + (f" → {text(main)}" if main else "")

    return text(tree(graph))


def _size(place: Place) -> int:
    return 1 + sum(_size(child) for child in place.below)


def terminal(graph: Graph) -> str:
    """The tree, a VNF a line."""
    lines: list[str] = []

    def walk(place: Place, first: str, further: str) -> None:
        lines.append(first + place.label)
        for i, child in enumerate(place.below):
            last = i == len(place.below) - 1
            walk(child, further + ("└─ " if last else "├─ "), further + ("   " if last else "│  "))

    walk(tree(graph), "", "")
    return "\n".join(lines)


@dataclass
class _Canvas:
    """Boxes and links of one picture, and how large it has become."""

    categories: Mapping[str, Category]
    parts: list[str]
    width: float = 0
    height: float = 0

    def box(self, place: Place, x: float, y: float, width: float) -> None:
        category = self.categories.get(place.names[0], Category.UNCLASSIFIED)
        dash = ' stroke-dasharray="4 3"' if category is Category.LEAF else ""
        self.parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5" '
            f'fill="{COLOURS[category]}" stroke="#456"{dash}/>'
            f'<text x="{x + width / 2:.0f}" y="{y + 17:.0f}">{escape(place.label)}</text>'
        )
        self.width = max(self.width, x + width)
        self.height = max(self.height, y + BOX_HEIGHT)

    def link(self, x1: float, y1: float, x2: float, y2: float) -> None:
        middle = (x1 + x2) / 2
        self.parts.append(
            f'<path d="M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} '
            f'{x2:.0f} {y2:.0f}" fill="none" stroke="#456" marker-end="url(#a)"/>'
        )

    def place(self, place: Place, x: float, y: float) -> float:
        """Draw a subtree with its top left at (x, y); the y below it."""
        width = len(place.label) * CHARACTER + 18
        self.box(place, x, y, width)
        child_y = y
        for child in sorted(place.below, key=_size, reverse=True):
            middle = BOX_HEIGHT / 2
            self.link(x + width, y + middle, x + width + GAP_X - 2, child_y + middle)
            child_y = self.place(child, x + width + GAP_X, child_y)
        return max(child_y, y + BOX_HEIGHT + GAP_Y)


def svg(
    graphs: Iterable[Graph], categories: Mapping[str, Category], notes: Sequence[str] = ()
) -> str:
    """All graphs under one another, numbered; notes above them."""
    canvas = _Canvas(categories, [])
    y = float(MARGIN)
    for note in notes:
        canvas.parts.append(f'<text class="n" x="{MARGIN}" y="{y + 12:.0f}">{escape(note)}</text>')
        canvas.width = max(canvas.width, MARGIN + len(note) * CHARACTER)
        y += 22
    for number, graph in enumerate(graphs, 1):
        canvas.parts.append(f'<text class="n" x="{MARGIN}" y="{y + 17:.0f}">{number}</text>')
        y = canvas.place(tree(graph), MARGIN + 34, y) + GAP_Y
    width, height = canvas.width + MARGIN, max(y, canvas.height + MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" class="graph" '
        'font-family="sans-serif" font-size="12">\n'
        "<style>.graph text{text-anchor:middle;fill:#123;font-size:12px}"
        ".graph .n{text-anchor:start;fill:#678}</style>\n"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#456"/></marker></defs>\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(canvas.parts) + "\n</svg>\n"
    )
