# SPDX-License-Identifier: Apache-2.0
"""A policy's run as a trial: what was offered, and what came of it."""

from __future__ import annotations

from dataclasses import replace

from headrace.ground.contract import Point
from headrace.measure.audit import audit
from headrace.measure.operate.loop import OperateRun
from headrace.record.facts import Facts
from headrace.record.figures import gbps
from headrace.record.rows import Trial
from headrace.record.verdict import Finding


def trial_of(
    run: OperateRun, point: Point, chain: str, number: int, repetition: int, started_at: str
) -> Trial:
    """`chain`: the point's, or one of those that share its lcores."""
    operable = run.operable
    totals, seconds = run.totals, run.log.operated.seconds
    done, sent = totals.done / seconds, totals.offered / seconds
    intended = totals.offered + totals.held_back + totals.unsent
    frame = operable.frame_bytes
    return Trial(
        chain=chain,
        execution=point.execution,
        workload=point.offers[0].workload,
        direction="forward",
        repetition=repetition,
        trial=number,
        phase="operate",
        started_at=started_at,
        intended_duration_s=seconds,
        audit=audit(_facts(run)),
        ground=operable.origin,
        load_pps=intended / seconds,
        throughput_pps=done,
        throughput_gbps_l1=gbps(done, frame, layer=1),
        throughput_gbps_l2=gbps(done, frame),
        offered_pps=intended / seconds,
        sent_pps=sent,
        received_pps=done,
        loss_ratio=totals.dropped / totals.offered if totals.offered else 0.0,
        duration_s=seconds,
        frame_bytes_mean=frame,
        intended=intended,
        sent=totals.offered,
        received=totals.done,
        lost=totals.dropped,
        policy_dropped=totals.by_policy,
        drops=dict(totals.drops),
        segments=point.segments,
        labels=tuple(operable.labels),
    )


def _facts(run: OperateRun) -> Facts:
    totals = run.totals
    inside = totals.offered - totals.done - totals.dropped - totals.by_policy
    text = f"Of {totals.offered} packets {totals.queued} were still inside at the end."
    told = Finding(
        check="conservation", ok=inside == totals.queued, value=inside, limit=totals.queued,
        text=text,
    )  # fmt: skip
    if totals.facts is not None:
        return replace(totals.facts, more=(told,))
    return Facts(
        sent=totals.offered, received=totals.done, lost=totals.dropped,
        asked=totals.offered + totals.unsent,
        intended_s=run.log.operated.seconds, took_s=run.log.operated.seconds, more=(told,),
    )  # fmt: skip
