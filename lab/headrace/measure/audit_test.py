# SPDX-License-Identifier: Apache-2.0
"""The audit against what it must not let pass, and what it must."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.measure.audit import audit, refused
from headrace.measure.doubts import handed_over, held_back, unrefused
from headrace.record.account import Account
from headrace.record.facts import Facts, LcoreTime


def facts(**more: Any) -> Facts:
    return Facts(**{"sent": 1000, "received": 990, "lost": 10, "asked": 1000, **more})


def clock(**more: Any) -> LcoreTime:
    return LcoreTime(**{"name": "VNF vnf1.1's lcore 2", "watched_s": 8.0, "read_s": 8.0, **more})


@pytest.mark.parametrize(
    ("given", "check", "verdict"),
    [
        (facts(sent=998, received=998, lost=0), "unsent", "generator-bound"),
        (facts(sent=1010), "oversent", "generator-bound"),
        (facts(received=1001, lost=-1), "surplus", "invalid"),
        (facts(intended_s=1.0, took_s=1.02), "stretched", "generator-bound"),
        (facts(behind_s=0.2, room_s=0.1), "stall", "suspect"),
        (facts(sink_full=1), "sink", "suspect"),
        (facts(undecided=1), "late", "suspect"),
        (facts(wrong=1), "content", "invalid"),
        (facts(amiss={"acl": 1}), "conservation", "invalid"),
        (facts(others_cpus=0.31, cpus=2), "other work", "suspect"),
        (facts(clocks=[clock(kept_s=0.01)]), "preemption", "suspect"),
        (facts(clocks=[clock(stood_s=0.3, kept_s=0.0)]), "standstill", "suspect"),
        (facts(clocks=[clock(pace=1.2, tsc_hz=10**9)]), "pace", "suspect"),
        (facts(clocks=[clock(width=2.0)]), "alone", "suspect"),
        (
            facts(
                accounts=[Account(direction="forward", size="64", sent=9, received=8, unknown=1)]
            ),
            "accounting",
            "invalid",
        ),
    ],
)
def test_each_check_fails_alone(given: Facts, check: str, verdict: str) -> None:
    judged = audit(given)
    assert [finding.check for finding in judged.failed] == [check]
    assert judged.verdict == verdict


@pytest.mark.parametrize(
    ("held_s", "more", "verdict"),
    [
        (2.8, {"sent": 700}, "suspect"),  # 35 % of 8 s for 30 % of the packets
        (2.0, {"sent": 700}, "generator-bound"),  # 25 %: not all of it is the machine's
        (0.1, {"sent": 990}, "suspect"),  # 1.25 % and 1 %, too little to be told by itself
        (0.8, {"intended_s": 1.0, "took_s": 1.08}, "suspect"),
        (0.8, {"intended_s": 1.0, "took_s": 1.2}, "generator-bound"),
        (2.8, {"sent": 700, "kept": 10}, "generator-bound"),  # its ports had no room either
    ],
)
@pytest.mark.parametrize("how", ["kept_s", "stood_s"])
def test_a_source_that_the_machine_held_up_is_no_narrow_generator(
    how: str, held_s: float, more: dict[str, Any], verdict: str
) -> None:
    sent = more.get("sent", 1000)
    given = facts(received=sent, lost=0, clocks=[clock(**{how: held_s})], **more)
    assert audit(given).verdict == verdict


@pytest.mark.parametrize(
    "given",
    [
        facts(),
        facts(asked=None, sent=5, received=5, lost=0),
        # By deployment it shares its CPU; its quota was used up; the kernel knows why it stood.
        facts(clocks=[clock(kept_s=4.0, judged=False)]),
        facts(clocks=[clock(stood_s=0.3, throttled_s=0.3)]),
        facts(clocks=[clock(stood_s=0.005, kept_s=0.005)]),
        # Without a loss the limit is what a latency has of it.
        facts(received=1000, lost=0, clocks=[clock(stood_s=0.3)]),
        facts(amiss={"acl": 64}, inside=64),
        facts(took_s=2.0),
    ],
)
def test_what_is_as_it_should_be_is_ok(given: Facts) -> None:
    assert audit(given).failed == ()


def test_the_clock_that_stood_still_is_named() -> None:
    whole = clock(name="Lcore 1", stood_s=0.0)
    [finding] = audit(facts(clocks=[whole, clock(stood_s=0.3)])).failed
    assert finding.text.startswith("VNF vnf1.1's lcore 2 stood still for 3.75% of the trial")


def test_one_limit_says_whether_the_chain_refused() -> None:
    assert [refused(lost, 10_000) for lost in (10, 11)] == [False, True]
    judged = audit(facts(asked=None))
    assert unrefused(judged, 10, 1000) is judged
    assert unrefused(judged, 0, 1000).verdict == "generator-bound"


# VPP behind memif, half a second at 30.1 Mpps. The port took 27 %, of which VPP lost 10,592.
BEHIND_A_PORT = {"sent": 15_045_920, "received": 4_090_176, "lost": 10_955_744, "kept": 10_945_152}
NONE_LOST = {"lost": 10_945_152, "received": 4_100_768}  # of what the port took


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"asked": None}, "ok"),  # the chain lost of what left: more than it carries reached it
        ({"asked": None, **NONE_LOST}, "generator-bound"),
        ({"asked": 15_045_920}, "generator-bound"),  # a load that was not the one asked for
        # The port's memory is the chain's too, which left no room in it.
        ({"asked": None, "kept_by": "chain", **NONE_LOST}, "ok"),
        ({"asked": 15_045_920, "kept_by": "chain"}, "ok"),
        ({"kept": 0, "sent": 1000, "received": 0, "lost": 1000}, "ok"),
    ],
)
def test_a_full_port_binds_where_the_chain_lost_nothing(more: dict[str, Any], verdict: str) -> None:
    """Each maximum behind a full port was the generator's, also where the chain lost 92 %."""
    judged = audit(facts(**{**BEHIND_A_PORT, "asked": None, **more}))
    assert judged.verdict == verdict
    [finding] = [one for one in judged.findings if one.check == "port"]
    assert finding.ok == (verdict == "ok") and finding.value == more.get("kept", 10_945_152)


def test_a_ring_that_waits_loses_nothing_and_is_no_generators_limit_for_that() -> None:
    """Each maximum without a loss was the generator's, also where the chain held it back."""
    trial = audit(facts(asked=None))
    assert unrefused(trial, 0, 1000).verdict == "generator-bound"
    assert held_back(trial, 0.4).verdict == "ok"
    assert held_back(trial, 0.99).verdict == "generator-bound"


@pytest.mark.parametrize(
    ("lost", "verdict"), [(0, "ok"), (1, "ok"), (2, "suspect"), (49, "suspect"), (50, "ok")]
)
def test_who_waits_for_its_generator_now_and_then_pays_for_two_states(
    lost: int, verdict: str
) -> None:
    """Receiving cost 46-49 cycles where 5 % were turned away or more, and 72-82 below."""
    judged = handed_over(audit(facts(asked=None)), lost, 1000)
    assert judged.verdict == verdict
    assert [f.check for f in judged.findings if not f.ok] == ["transfer"] * (verdict != "ok")
