# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json, where that is made of records (docs/json.md)."""

from __future__ import annotations

from typing import Any

from headrace.record.claim import JudgedClaim
from headrace.record.frozen import Record
from headrace.record.rows import ResultRow
from headrace.record.segments import Anatomy


class RunOutput(Record):
    """headrace run"""

    bundle: str
    results: tuple[ResultRow, ...]
    claims: tuple[JudgedClaim, ...]


class ListedPoint(Record):
    """A point of a study that was not run: --list shows what there is."""

    point: str  # its name, or number, as `--point` takes it
    title: str = ""  # of a campaign: what the point consists of, in words
    group: str = ""  # the study's, if it has any
    figures: tuple[str, ...] = ()  # of the paper, that have it
    values: dict[str, Any] = {}  # of the sweep
    lacking: str | None = None  # why it cannot be had here; null: it can


class PointList(Record):
    """headrace run --list, campaign --list, hosting selftest --list"""

    study: str
    points: tuple[ListedPoint, ...]


class CleanOutput(Record):
    """headrace clean"""

    done: tuple[str, ...]  # what was undone


class InitOutput(Record):
    """headrace init"""

    files: tuple[str, ...]  # that were written, the spec first


class BuildOutput(Record):
    """headrace vnf build"""

    built: tuple[str, ...]  # VNFs whose images were made
    there: tuple[str, ...]  # whose images had been made before


class ExportOutput(Record):
    """headrace export kubernetes"""

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
    """headrace hosting anatomy"""

    bundle: str
    trials: tuple[TrialAnatomy, ...]
    left_out: str | None  # trials whose parts cannot be told, and why
