# SPDX-License-Identifier: Apache-2.0
"""Chain graphs under one another, numbered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.graph.draw import svg
from headrace.graph.knowledge import Category


@dataclass(frozen=True)
class Graphs:
    graphs: tuple[dict[str, str | None], ...]  # vertex: the one before it
    categories: dict[str, Category]
    kind: Literal["graphs"] = "graphs"

    def draw(self, _: float) -> str:
        return svg(self.graphs, self.categories)
