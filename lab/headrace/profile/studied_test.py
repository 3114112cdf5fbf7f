# SPDX-License-Identifier: Apache-2.0
"""What a run says of located packets, of its busiest lcore and of packets dropped on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.engine.figures import Context, observations
from headrace.engine.plan import Path as Way
from headrace.engine.reading import Reading
from headrace.profile.studied import StudiedRun, _busiest, carried
from headrace.record.counters import Counters, Located, NfReading, ReplicaReading
from headrace.record.figures import Figures
from headrace.record.rows import Trial
from headrace.record.verdict import Audit

Json = dict[str, Any]


def located(place: str, segment: str, behind_first: bool = False) -> Located:
    return Located(place=place, segment=segment, behind_first=behind_first, samples=1)


def run(*found: Located) -> StudiedRun:
    return StudiedRun(1e6, 0.0, {}, {}, 0.0, 0.0, found)


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


def ends() -> Json:
    own = {"packets": 0, "bytes": 0, "sizes": {}}
    return {
        "gen-forward": {
            "type": "source", "intended": 1000, "sent": 1000, "sent_bytes": 64_000, "unsent": 0,
            "behind_max_ns": 0, "duration_ns": 10**9, "intended_duration_ns": 10**9, "sizes": {},
        },
        "sink-forward": {
            "type": "sink", "own": own, "within": {"own_packets": 0, "own_bytes": 0},
            "duplicated": 0, "reordered": 0, "flows": 1, "created": 0,
        },
    }  # fmt: skip


def trial_of(policy: dict[str, frozenset[str]]) -> Trial:
    """1000 packets were sent, none came: 990 ended as `null` at the function `end`."""
    ended = {"null": {"forward": {"64": 990}}, "other": {"forward": {"64": 10}}}
    nf = {"type": "null", "in": 1000, "dropped": {"null": 990, "other": 10}, "ended": ended}
    links = ends()
    before = {"tsc_hz": 1, "workers": {}, "segments": {}, "links": links}
    after = before | {"segments": {"chain": [{"cpu": 1, "in": 1000, "nfs": {"end": nf}}]}}
    taken = Reading(0.0, 1.0, before, after, {}, 1.0, 1.0)
    context = Context(64, {"links": {}}, (Way("forward"),), policy=policy)
    [seen] = observations(context, taken)
    fields = {name: getattr(seen.figures, name) for name in Figures.model_fields}
    return Trial(
        **fields, chain="c", direction="forward", repetition=1, execution="rtc", workload="64B",
        audit=Audit(verdict="ok"), trial=1, phase="max", started_at="", intended_duration_s=1.0,
    )  # fmt: skip


def test_what_is_dropped_as_told_was_carried() -> None:
    told = trial_of({"end": frozenset({"null"})})
    assert told.loss_ratio == 0.01 and carried(told) == 990
    untold = trial_of({})
    assert untold.loss_ratio == 1 and carried(untold) == 0
