# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run goes, so that nobody has to guess what to make faster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by phase; phases follow each other and do not nest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def text(self) -> str:
        parts = sorted(self.seconds.items(), key=lambda item: -item[1])
        return f"{self.total:.0f} s: " + ", ".join(f"{name} {s:.0f}" for name, s in parts)
