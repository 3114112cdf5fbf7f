# SPDX-License-Identifier: Apache-2.0
"""What --aim, --rate and --slo mean together, and what they refuse."""

from __future__ import annotations

import pytest

from headrace.errors import BadInput, HeadraceError
from headrace.layout.goals import WantedLayout, choose_layout, wanted
from headrace.layout.layout import Hop, NfCost, Problem, Traffic


def test_what_is_asked_for() -> None:
    assert wanted(None, None, None) == WantedLayout()
    assert wanted(None, "5M", None) == WantedLayout("lcores", 5e6)
    assert wanted("latency", "2M", None) == WantedLayout("latency", 2e6)
    assert wanted("throughput", "2M", None) == WantedLayout("throughput", 2e6)
    assert wanted("latency", "12.5%", None) == WantedLayout("latency", share=0.125)
    asked = wanted(None, None, "rate=2M, latency=50us")
    assert asked.aim == "lcores" and asked.rate_pps == 2e6
    assert asked.within_s == pytest.approx(50e-6)


@pytest.mark.parametrize(
    ("aim", "rate", "slo", "words"),
    [
        ("speed", None, None, ("--aim", "speed", "latency")),
        ("latency", None, None, ("--aim", "load")),
        (None, "fast", None, ("--rate", "fast", "1.5M")),
        (None, "0", None, ("--rate", "0")),
        (None, "101%", None, ("--rate", "101%", "100%")),
        (None, "0%", None, ("--rate", "0%", "100%")),
        (None, "1M", "rate=2M", ("--rate", "1M", "--slo")),
        (None, None, "latency=5us", ("--slo", "rate")),
        (None, None, "rate=5M,latency=5", ("--slo", "'5'", "50us")),
        (None, None, "rate=5M,loss=0", ("--slo", "loss", "latency")),
        (None, None, "rate=5M,rate=6M", ("--slo", "rate=6M")),
        ("latency", None, "rate=5M,latency=5us", ("--aim", "latency", "lcores")),
    ],
)
def test_what_is_refused(
    aim: str | None, rate: str | None, slo: str | None, words: tuple[str, ...]
) -> None:
    with pytest.raises(BadInput) as refused:
        wanted(aim, rate, slo)
    for word in words:
        assert word in str(refused.value)


def chain() -> Problem:
    nfs = tuple(
        NfCost(str(i), Hop(10, 30), Hop(100, 110), Hop(5, 15), 5, None, 100) for i in range(2)
    )
    return Problem(nfs, Traffic(Hop(30, 40), Hop(20, 40), 0, 3, 0, 100, 20), (1, 2), 1e9)


@pytest.mark.long
def test_each_aim_finds_its_layout() -> None:
    given = chain()
    most = choose_layout(given, WantedLayout())
    assert choose_layout(given, WantedLayout("throughput", 1e6)) == most
    quick = choose_layout(given, WantedLayout("latency", 1e6))
    assert quick.latency_s is not None
    few = choose_layout(given, WantedLayout("lcores", 1e6, quick.latency_s * 2))
    assert len(few.layout.used) == 1


@pytest.mark.long
def test_what_cannot_be_met_is_said() -> None:
    with pytest.raises(HeadraceError, match="not reached on 2 lcores"):
        choose_layout(chain(), WantedLayout("lcores", 1e9))
    with pytest.raises(HeadraceError, match=r"within 0.001 us are not met.*at best"):
        choose_layout(chain(), WantedLayout("lcores", 1e6, 1e-9))
