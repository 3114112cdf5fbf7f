# SPDX-License-Identifier: Apache-2.0
"""What is said while something is awaited."""

from __future__ import annotations

import os

from headrace.host.exclusive import HeldLcores
from headrace.measure.progress import waiting_for

CPU = 100_500  # no machine's; other tests have theirs


def test_who_waits_says_for_whom_and_how_long() -> None:
    with HeldLcores([CPU], lambda cpu: None):
        text = waiting_for(CPU)
    assert text == f"lcore {CPU}: waiting for process {os.getpid()}, at most 60 min 00 s"
    assert waiting_for(CPU, 20).endswith("at most 20 s")
