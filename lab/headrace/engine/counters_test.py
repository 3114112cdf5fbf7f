# SPDX-License-Identifier: Apache-2.0
"""Where packets were, as a difference of two readings of two replicas."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.counters import difference, located, nf_cycles
from headrace.engine.counts import EngineCounts
from headrace.engine.counts_testdata import counts
from headrace.record.counters import Counters, NfReading, ReplicaReading

Json = dict[str, Any]


def reading(cpu: int, scale: int) -> Json:
    def sampled(own: int, far: int, cycles: float) -> Json:
        return {
            "samples": (own + far) * scale,
            "disturbed": scale,
            "mean_cycles": cycles if scale else 0.0,
            "classes": {"own": own * scale, "other core or memory": far * scale},
            "cycles": {"288": own * scale},
        }

    nf = {"type": "null", "in": 0, "cycles": 0}
    return {
        "cpu": cpu,
        "nfs": {"acl": nf, "lb": nf},
        "located": {
            "inputs": {"wire": sampled(60, 40, 400.0), "wire-r": sampled(80, 20, 300.0)},
            "nfs": {"lb": sampled(99, 1, 290.0)},
        },
    }


def whole(scale: int) -> EngineCounts:
    return counts(
        {
            "tsc_hz": 1,
            "links": {},
            "segments": {"chain": [reading(1, scale), reading(2, scale)]},
        }
    )


def test_inputs_are_the_first_functions_and_replicas_are_summed() -> None:
    places = located(difference(whole(0), whole(1), None))
    first, behind = places
    assert (first.place, first.behind_first, first.samples) == ("acl", False, 400)
    assert first.classes == {"own": 280, "other core or memory": 120}
    assert first.index == pytest.approx(0.7) and first.mean_cycles == pytest.approx(350)
    assert (behind.place, behind.behind_first) == ("lb", True)
    assert behind.index == pytest.approx(0.99) and behind.disturbed == 2


def test_what_was_before_the_trial_does_not_count() -> None:
    first, _ = located(difference(whole(1), whole(3), None))
    assert first.samples == 800 and first.mean_cycles == pytest.approx(350)


def test_engines_that_do_not_locate_say_nothing() -> None:
    plain = counts({"tsc_hz": 1, "links": {}, "segments": {"chain": [{"cpu": 1}]}})
    assert located(difference(plain, plain, None)) == ()


def beside(scale: int) -> EngineCounts:
    """A replica whose second function runs on an lcore of its own."""
    passed = {"type": "null", "in": 90 * scale, "out": {"out": 90 * scale}, "cycles": 9 * scale}
    denied = {"dropped": {"denied": 10 * scale}, "in": 100 * scale, "out": {"pass": 90 * scale}}
    side = {"cpu": 2, "polls": 7 * scale, "idle_polls": 3 * scale, "ops_cycles": 50 * scale}
    replica = {
        "cpu": 1,
        "in": 100 * scale,
        "out": 90 * scale,
        "nfs": {"acl": {"type": "acl", **denied}, "slow": passed},
        "parallel": {"slots": 1024, "used": 0, "full_polls": 0, "sides": {"slow": side}},
    }
    return counts({"tsc_hz": 1, "links": {}, "segments": {"chain": [replica]}})


def test_function_beside_is_a_part_of_its_own() -> None:
    lead, side = difference(beside(1), beside(3), None).replicas
    assert (lead.segment, lead.cpu, lead.packets_in, set(lead.nfs)) == ("chain", 1, 200, {"acl"})
    assert (side.segment, side.cpu, set(side.nfs)) == ("chain:slow", 2, {"slow"})
    assert (side.packets_in, side.packets_out) == (180, 180)
    assert (side.polls, side.idle_polls, side.ops_cycles) == (14, 6, 100)
    assert lead.nfs["acl"].missing == side.nfs["slow"].missing == 0


@pytest.mark.parametrize("timed", [1.0, 1.5, 8.0])
def test_a_packet_costs_no_more_than_there_was(timed: float) -> None:
    """At 10 Mpps a TSC of 2.6 GHz leaves 260 cycles for a packet, of which the engine counted 200;
    polls that are timed part by part told `timed` times as much."""
    packets, busy = 1_000_000, 200.0
    sampled = packets // 16

    def part(cycles: float) -> dict[str, int]:
        return {
            "packets_in": packets, "cycles": round(cycles * timed * sampled),
            "cycles_packets": sampled,
        }  # fmt: skip

    replica = ReplicaReading(
        segment="chain", index=0, cpu=1, packets_in=packets, ops_cycles=round(busy * packets),
        rx_cycles=round(50 * timed * sampled), tx_cycles=round(10 * timed * sampled),
        io_packets=sampled,
        nfs={name: NfReading(type=name, **part(each)) for name, each in (("acl", 90), ("lb", 40))},
    )  # fmt: skip
    told = nf_cycles(Counters(tsc_hz=2_600_000_000, replicas=(replica,)))
    links = (replica.io_cycles_per_packet or 0) * replica.sampled_share
    assert sum(told.values()) + links <= busy + 0.01
    assert told["acl"] / told["lb"] == pytest.approx(90 / 40, rel=1e-3)
    if timed == 1:
        assert told["acl"] == pytest.approx(90, rel=1e-3)
