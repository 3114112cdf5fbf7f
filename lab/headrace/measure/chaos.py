# SPDX-License-Identifier: Apache-2.0
"""VNFs killed at random and started again under traffic: the host must never notice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from headrace.ground.contract import Killable, Point
from headrace.measure.audit import audit
from headrace.record.chaos import ChaosOutcome
from headrace.record.facts import Facts
from headrace.record.figures import gbps
from headrace.record.rows import Trial
from headrace.spec.measure import Chaos

_SAID_EVERY = 60  # kills


def chaos(
    deployed: Killable, asked: Chaos, load_pps: float, say: Callable[[str], None]
) -> ChaosOutcome:
    """`load_pps` in each direction. What is left on the machine is seen later, when all is over."""
    choose = random.Random(asked.seed)
    kills = dict.fromkeys(deployed.victims, 0)
    before = deployed.health()
    began, came, turn, still = time.monotonic(), 0, 0, 0
    with deployed.sending(load_pps, asked.duration * 2):
        while time.monotonic() - began < asked.duration:
            there = deployed.up()
            received = deployed.health().received
            still += received == came and turn > 0
            came = received
            if there:
                name = choose.choice(there)
                kills[name] += 1
                deployed.kill(name)
            turn += 1
            if turn % _SAID_EVERY == 0:
                say(f"  {sum(kills.values())} kills, {came} packets came through")
            time.sleep(max(0.0, began + turn * asked.every - time.monotonic()))
        not_back = deployed.settle()
    after = deployed.health()
    return ChaosOutcome(
        seconds=after.sending_s,
        kills=kills,
        restarts=deployed.restarts,
        sent=after.sent,
        received=after.received,
        corrupt=after.corrupt,
        updates=after.updates,
        mbufs_before=before.mbufs,
        mbufs_after=after.mbufs,
        mbufs_room=deployed.mbufs_room,
        still=still,
        taken=deployed.taken(),
        handed_over=deployed.handed_over(),
        flows_on=deployed.flows_on,
        ways=deployed.ways_count,
        not_back=tuple(not_back),
    )


def trial_of(
    outcome: ChaosOutcome,
    frame_bytes: float,
    load_pps: float,
    point: Point,
    number: int,
    repetition: int,
    started_at: str,
) -> Trial:
    """Its row: the load, what came of it, and in its audit whether the host was harmed."""
    received = outcome.received / outcome.seconds
    lost = max(0, outcome.sent - outcome.received)
    sent = outcome.sent / outcome.seconds
    facts = Facts(
        sent=outcome.sent, received=outcome.received, lost=lost, took_s=outcome.seconds,
        more=outcome.findings,
    )  # fmt: skip
    return Trial(
        chain=point.chain,
        execution=point.execution,
        workload=point.offers[0].workload,
        direction="forward" if outcome.ways == 1 else "both",
        repetition=repetition,
        trial=number,
        phase="chaos",
        started_at=started_at,
        intended_duration_s=outcome.seconds,
        audit=audit(facts),
        load_pps=load_pps * outcome.ways,
        throughput_pps=received,
        throughput_gbps_l1=gbps(received, frame_bytes, layer=1),
        throughput_gbps_l2=gbps(received, frame_bytes),
        offered_pps=sent,
        sent_pps=sent,
        received_pps=received,
        loss_ratio=lost / outcome.sent if outcome.sent else 0.0,
        duration_s=outcome.seconds,
        frame_bytes_mean=frame_bytes,
        sent=outcome.sent,
        received=outcome.received,
        lost=lost,
        segments=point.segments,
    )
