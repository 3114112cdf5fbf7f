# SPDX-License-Identifier: Apache-2.0
"""Consoles whose text may be a stranger's: names and findings of a bundle, keys of a spec."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

# What a terminal obeys (C0 and C1 but for line ends and tabs), and what turns the order of others
# around (Unicode's bidirectional controls). What a library colours comes as a style, not as text.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(json: str) -> str:
    """The same document, with what a terminal would obey in it as JSON's escapes."""
    return _OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", json)


class Terminal(Console):
    """No text that is printed orders the terminal anything: `?` stands for what would. Nor is any
    of it a picture's name, as rich takes the `:x:` of a line of /etc/passwd."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for one in super().render(*arguments, **options):
            if one.control or not _OBEYED.search(one.text):
                yield one
            else:
                yield Segment(_OBEYED.sub("?", one.text), one.style)
