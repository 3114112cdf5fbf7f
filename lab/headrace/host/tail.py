# SPDX-License-Identifier: Apache-2.0
"""The end of a file that a VNF writes, or its emulator or daemon: as long as it likes, and with
whatever it likes in it."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 1 << 16


def tail(file: Path) -> str:
    """Reads at most its last 64 KiB, as text without the zeros of a hole; OSError: there is no such
    file, or it is a link."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as end:
        end.seek(max(0, os.fstat(opened).st_size - MOST_BYTES))
        return end.read(MOST_BYTES).replace(b"\0", b"").decode(errors="replace")
