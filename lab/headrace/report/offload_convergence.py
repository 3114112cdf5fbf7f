# SPDX-License-Identifier: Apache-2.0
"""What routing daemons reach, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

Json = dict[str, Any]
_WIDTH = 108  # a file or a pipe says 80, and columns of figures would be cut


def show_convergence(rows: Sequence[Json], console: Console) -> None:
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    table = Table(title=f"Changes of {rows[0]['routes']} routes, by BGP, until the engine has them",
                  title_justify="left", box=None)  # fmt: skip
    table.add_column("daemon")
    table.add_column("change")
    for heading in ("times", "routes/s", "from", "to", "first s", "last s"):
        table.add_column(heading, justify="right")
    table.add_column("CPUs busy")
    for row in rows:
        table.add_row(
            row["daemon"],
            row["event"],
            str(row["changes"]),
            *(f"{row[key]:.0f}" for key in ("per_s", "per_s_min", "per_s_max")),
            *(f"{row[key]:.2f}" for key in ("reaction_s", "seconds")),
            ", ".join(f"{name} {share:.2f}" for name, share in row["busy"].items()),
        )
    console.print(table)
