# SPDX-License-Identifier: Apache-2.0
"""For mkdocs (mkdocs.yml): a search finds what explains a word before lists that only have it."""

from __future__ import annotations

from typing import Any

LISTS = ("reference/json.md", "reference/tables.md")
LAST = 0.0005  # a title counts a thousand times as much as a text there, and these are all titles


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Called by mkdocs for each page."""
    if page.file.src_uri.startswith(LISTS):
        page.meta.setdefault("search", {"boost": LAST})
    return markdown
