# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.host.exclusive import HeldLcores
from headrace.host.server import detect
from headrace.profile.calibrate import calibrate


def test_it_waits_for_a_run_that_holds_lcores() -> None:
    cpu = detect().usable_cpus[0]
    told: list[str] = []
    refused = pytest.raises(HeadraceError, match=f"lcore {cpu}: held")
    with HeldLcores([cpu], lambda cpu: None), refused:
        calibrate(1, [cpu], told.append, wait_s=0.1)
    assert [text for text in told if text.startswith(f"lcore {cpu}: waiting for process")]
