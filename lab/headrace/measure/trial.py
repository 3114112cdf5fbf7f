# SPDX-License-Identifier: Apache-2.0
"""One trial, on any ground: start, read, audit (audit.py gives the verdict)."""

from __future__ import annotations

from contextlib import nullcontext

from headrace.collect.watch import Watch
from headrace.ground.contract import Deployed, Offer, Point
from headrace.measure.audit import audit
from headrace.record.bundle import now
from headrace.record.facts import Observation
from headrace.record.figures import Figures
from headrace.record.identity import Phase
from headrace.record.rows import Trial
from headrace.record.slices import Sliced


def trial(
    deployed: Deployed,
    point: Point,
    offer: Offer,
    load_pps: float,
    seconds: float,
    *,
    phase: Phase,
    repetition: int,
    number: int,
    watch: Watch | None = None,
    slices: list[Sliced] | None = None,
) -> list[Trial]:
    """`load_pps`: in each direction, 0 is as fast as possible. One record per direction, and their
    sum when there are two. `slices`: where the trial's are put."""
    with nullcontext() if watch is None else watch.trial(number):
        deployed.start(offer, load_pps, seconds)
        started_at = now()
        deployed.wait()

    def judged(seen: Observation) -> Trial:
        figures = {name: getattr(seen.figures, name) for name in Figures.model_fields}
        return Trial(
            **figures,
            chain=point.chain,
            direction=seen.direction,
            repetition=repetition,
            execution=point.execution,
            workload=offer.workload,
            audit=audit(seen.facts),
            trial=number,
            phase=phase,
            started_at=started_at,
            intended_duration_s=seconds,
            line_cycles=seen.line and seen.line.cycles,
            line_share=seen.line and seen.line.share,
        )

    observed = deployed.read()
    if slices is not None:  # of all directions: the last one is their sum
        slices += [seen.sliced for seen in observed[-1:] if seen.sliced is not None]
    return [judged(seen) for seen in observed]
