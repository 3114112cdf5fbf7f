# SPDX-License-Identifier: Apache-2.0
"""What a policy made of a load that changes: lcores over time, whether the SLO was kept, and each
decision with what was expected of it and what came."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.record.frozen import Record
from headrace.record.own import sample_record

OPERATE = "operate"  # how a row's goal begins; the policy follows
OPERATE_FILE = "operate-{:03}.json"  # among a bundle's samples, by trial


class SharedLcores(Record):
    """One chain of several on the same lcores."""

    weight: NonNegativeFloat
    lcores: NonNegativeInt  # that there are for all of them
    mean_asked: NonNegativeFloat  # lcores, in the mean, that it would have had alone
    backpressure: bool
    held_back: NonNegativeInt  # packets that its source did not send
    broken_held: NonNegativeInt  # windows, by packets that were held back
    # Of lcores, on packets that were dropped behind it, between two functions.
    wasted_core_seconds: NonNegativeFloat


class Operated(Record):
    """One policy's run. A window is one interval of telemetry; it is broken when the p99 of its
    packets is above the SLO's, or more of them were lost, or held back."""

    policy: str
    slo_p99_ns: NonNegativeFloat
    slo_loss: NonNegativeFloat
    seconds: NonNegativeFloat
    windows: NonNegativeInt  # that had packets
    broken: NonNegativeInt
    broken_p99: NonNegativeInt  # of these, by latency; the same one may be so by loss
    broken_loss: NonNegativeInt
    longest_broken_s: NonNegativeFloat = 0.0  # of windows one after the other
    kept: NonNegativeFloat | None  # share of the windows; None: no packet was asked for in any
    core_seconds: NonNegativeFloat
    mean_lcores: NonNegativeFloat
    most_lcores: NonNegativeInt
    steps: NonNegativeInt  # decisions that were carried out
    moves: NonNegativeInt  # of buckets
    queued: NonNegativeInt  # packets that were inside at the end
    # What becomes of a packet's cost as the model has it, as the policy has learned; None: it does
    # not learn.
    learned: float | None = None
    shared: SharedLcores | None = None  # with other chains
    unkeepable: str | None = None  # why no number of lcores keeps the SLO


class Decision(Record):
    """One step. Expected and what came are of the lcore that is busiest behind it, in the first
    intervals that have neither moves nor lcores that begin; None: no such interval came before the
    next step, or the policy expects nothing."""

    at_s: NonNegativeFloat
    lcores_before: NonNegativeInt
    lcores_after: NonNegativeInt
    moved: NonNegativeInt  # buckets
    why: str
    expected_busy: float | None = None
    expected_p99_ns: float | None = None
    came_busy: float | None = None
    came_p99_ns: float | None = None
    settled_s: float | None = None  # until all was moved


class CoursePoint(Record):
    """A stretch of time: means of the load and of the lcores, the most of all else."""

    at_s: NonNegativeFloat
    offered_pps: NonNegativeFloat
    lcores: NonNegativeFloat
    busiest: NonNegativeFloat
    p99_ns: NonNegativeFloat
    lost: NonNegativeInt
    held_back: NonNegativeInt = 0
    broken: NonNegativeInt  # windows


class OperateLog(Record):
    """samples/operate-NNN.json."""

    operated: Operated
    decisions: tuple[Decision, ...]
    course: tuple[CoursePoint, ...]


def operate_logs(bundle: Path) -> dict[int, OperateLog]:
    """Logs by trial; none where a bundle is of something else."""
    samples = bundle / "samples"
    files = sorted(samples.glob("operate-*.json"))
    logs = ((file.stem, sample_record(samples, file.name, OperateLog)) for file in files)
    return {int(stem.partition("-")[2]): log for stem, log in logs if log is not None}
