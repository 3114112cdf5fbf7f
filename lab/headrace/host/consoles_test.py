# SPDX-License-Identifier: Apache-2.0
"""A stranger's text orders the terminal nothing; what a command colours itself is left."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from headrace.host.consoles import Terminal


def printed(*what: object, **options: bool) -> str:
    out = io.StringIO()
    # Colours whatever TERM is: a dumb terminal has none.
    to = Terminal(file=out, force_terminal=True, color_system="standard", width=80, highlight=False)
    to.print(*what, **options)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("order", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "\x0e", "\u202egnp"])
def test_text_orders_nothing(order: str) -> None:
    grid = Table(order)
    grid.add_row(f"a{order}")
    for text in (printed(f"a{order}", markup=False), printed(Text(order)), printed(grid)):
        assert order not in text
        assert "?" in text


def test_colours_and_figures_are_left() -> None:
    assert "\x1b[1m" in printed(Text("bold", style="bold"))
    assert printed("20.0\u202fMpps\nb", markup=False) == "20.0\u202fMpps\nb\n"


def test_colons_of_a_file_are_no_picture() -> None:
    out = io.StringIO()
    table = Table("a:x:b")
    table.add_row("root:x:0:0")
    to = Terminal(file=out, width=80)
    to.print("root:x:0:0 :+1:")
    to.print(table)
    assert "root:x:0:0 :+1:" in out.getvalue() and "a:x:b" in out.getvalue()
    assert out.getvalue().count("root:x:0:0") == 2
