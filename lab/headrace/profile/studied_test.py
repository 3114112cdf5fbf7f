# SPDX-License-Identifier: Apache-2.0
"""What a run says of located packets, of its busiest lcore and of packets dropped on purpose."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from headrace.engine.reading import Flow
from headrace.profile.studied import Run, _busiest, _carried
from headrace.record.counters import Counters, Located, NfReading, ReplicaReading


def located(place: str, segment: str, behind_first: bool = False) -> Located:
    return Located(place=place, segment=segment, behind_first=behind_first, samples=1)


def run(*found: Located) -> Run:
    return Run(1e6, 0.0, {}, {}, 0.0, 0.0, found)


def test_the_generator_s_own_packets_are_not_the_chain_s() -> None:
    chain = located("acl", "chain")
    others = (located("generator", "generator"), located("sink", "sink"))
    behind = located("lb", "chain", behind_first=True)
    assert run(others[0], behind, chain, others[1]).received == chain
    assert run(*others).received is None


def replica(segment: str, cpu: int, ops_cycles: int, dropped: int = 0) -> ReplicaReading:
    nf = NfReading(type="null", packets_in=1000, dropped={"null": dropped, "other": 7})
    return ReplicaReading(segment=segment, index=0, cpu=cpu, ops_cycles=ops_cycles, nfs={"end": nf})


def test_the_busiest_lcore_is_the_chain_s_alone() -> None:
    """A pipeline of three stages on two lcores: the first has two of them, 300 + 200 cycles for
    each of 1000 packets; what the source takes beside them is no work of the chain's."""
    replicas = (
        replica("generator", 0, 900_000),
        replica("acl", 0, 300_000),
        replica("lb", 1, 400_000),
        replica("l3fwd", 0, 200_000),
        replica("sink", 1, 900_000),
    )
    assert _busiest(Counters(tsc_hz=2_000_000_000, replicas=replicas), 1000) == 500
    made = replace(run(), busiest=500.0, tsc_hz=2e9)
    assert made.carries_pps == 4e6


def test_what_is_dropped_as_told_was_carried() -> None:
    flow = Flow(1000, 1000, 64_000, 0, 0, 0, 0, 0, 1.0, 1.0)
    counters = Counters(tsc_hz=1, replicas=(replica("chain", 1, 0, dropped=990),))
    told: Any = SimpleNamespace(policy={"end": frozenset({"null"})})
    assert _carried(flow, counters, told).loss_ratio == 0.01
    untold: Any = SimpleNamespace(policy={})
    assert _carried(flow, counters, untold).loss_ratio == 1
