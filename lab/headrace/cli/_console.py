# SPDX-License-Identifier: Apache-2.0
"""Where commands print what they found."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPED_WIDTH = 200  # columns; rich would cut tables to 80 for a file or another program


def stdout(soft_wrap: bool = False) -> Console:
    """As wide as the terminal; elsewhere wide, unless COLUMNS says how wide."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, soft_wrap=soft_wrap, width=None if narrow else PIPED_WIDTH)
