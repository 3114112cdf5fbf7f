# SPDX-License-Identifier: Apache-2.0
"""Lines of a text that a spec names: routes, rules, prefixes; plain or gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

_GZIP = b"\x1f\x8b"  # RFC 1952, section 2.3.1


def lines_of(file: Path) -> Iterator[str]:
    """The lines of a file, unpacked where its first bytes, not its name, say that it is gzip.
    OSError: it cannot be read, or is no whole gzip file."""
    with file.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    try:
        with (gzip.open if packed else open)(
            file, "rt", encoding="utf-8", errors="replace"
        ) as text:
            yield from text
    except (EOFError, zlib.error) as why:
        raise OSError(f"no whole gzip file: {why}") from None


def entries_in(file: Path) -> int:
    """How many lines of a file are neither empty nor comments."""
    return sum(1 for line in lines_of(file) if line.strip() and not line.startswith("#"))
