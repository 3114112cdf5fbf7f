# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json, where that is made of records (docs/json.md)."""

from __future__ import annotations

from headrace.record.claim import JudgedClaim
from headrace.record.frozen import Record
from headrace.record.points import NamedPoint
from headrace.record.rows import ResultRow
from headrace.record.segments import Anatomy


class RunOutput(Record):
    """What `headrace run` prints."""

    bundle: str
    results: tuple[ResultRow, ...]
    claims: tuple[JudgedClaim, ...]


class ListedPoint(NamedPoint):
    """A point of a study that was not run: --list shows what there is."""

    title: str = ""  # of a campaign: what the point consists of, in words
    lacking: str | None = None  # why it cannot be had here; null: it can


class PointList(Record):
    """What `--list` of `run`, `campaign` and `hosting selftest` prints."""

    study: str
    points: tuple[ListedPoint, ...]


class CleanOutput(Record):
    """What `headrace clean` prints."""

    done: tuple[str, ...]  # what was undone


class InitOutput(Record):
    """What `headrace init` prints."""

    files: tuple[str, ...]  # that were written, the spec first


class BuildOutput(Record):
    """What `headrace vnf build` prints."""

    built: tuple[str, ...]  # VNFs whose images were made
    there: tuple[str, ...]  # whose images had been made before


class ExportOutput(Record):
    """What `headrace export kubernetes` prints."""

    folders: tuple[str, ...]  # one for each point, as `kubectl apply -k` takes it
    left_out: dict[str, str]  # point: why it cannot be deployed so


class TrialAnatomy(Record):
    """Where a trial's packets spent their time; the parts add up to the mean latency."""

    trial: int
    chain: str
    execution: str
    workload: str
    direction: str
    load_pps: float  # each way; 0: as fast as possible
    mean_ns: float
    parts: Anatomy


class AnatomyOutput(Record):
    """What `headrace hosting anatomy` prints."""

    bundle: str
    trials: tuple[TrialAnatomy, ...]
    left_out: str | None  # trials whose parts cannot be told, and why
