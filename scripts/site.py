# SPDX-License-Identifier: Apache-2.0
"""For mkdocs (mkdocs.yml): a search finds what explains a word before lists that only have it."""

from __future__ import annotations

from typing import Any

LISTS = ("reference/", "design/")  # generated tables, and what is for those who change headrace


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Called by mkdocs for each page."""
    if page.file.src_uri.startswith(LISTS):
        page.meta.setdefault("search", {"boost": 0.2})
    return markdown
