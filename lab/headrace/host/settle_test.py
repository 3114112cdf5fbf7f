# SPDX-License-Identifier: Apache-2.0
"""The wait for other work ends when it does, held against a process of known length."""

from __future__ import annotations

import pytest

from headrace.host import settle as settling


def test_it_waits_for_as_long_as_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, told = [0.2, 0.5, 0.95, 0.1], list[str]()
    monkeypatch.setattr(settling, "idle_share", lambda seconds: shares.pop(0))
    assert settling.settle(60, told.append) is not None
    assert shares == [0.1]
    assert told == ["waiting for other work on this machine to pass, at most 60 s"]


def test_it_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    monkeypatch.setattr(settling, "idle_share", lambda seconds: 0.0)
    assert settling.settle(1e-9, told.append) is None
    assert told == ["other work on this machine has not passed in 1e-09 s: going on beside it"]


def test_no_wait_is_none() -> None:
    assert settling.settle(0, print) == 0


def test_time_is_accounted_for_as_the_kernel_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 of 400 ticks idle or waiting for devices."""
    times = iter(((1000, 5000), (1300, 5400)))
    monkeypatch.setattr(settling, "_times", lambda: next(times))
    assert settling.idle_share(0.0) == 0.75
