# SPDX-License-Identifier: Apache-2.0
"""What a campaign was asked for, and what each of its points came to."""

from __future__ import annotations

from headrace.record.frozen import Record
from headrace.record.verdict import Verdict

CAMPAIGN_FILE = "campaign.json"


class CampaignRule(Record):
    """When a point has been run often enough."""

    until: float | None = None  # runs until the median's interval is within this share of it
    most: int = 10  # runs of a point, however wide that interval is
    keep: int | None = None  # halving ends with so many points; None: no point is left out


class CampaignOrder(Record):
    """A campaign goes on only as it began."""

    format: int = 1
    spec: str  # the study's text
    server: str | None  # the described one that it is predicted for
    rule: CampaignRule


class CampaignPoint(Record):
    """A point and all its runs. A figure is packets/s, of applications what `unit` says."""

    key: str  # `headrace run STUDY --point KEY` measures it
    title: str  # chain, execution, workload
    runs: tuple[tuple[float, ...], ...] = ()  # figures of each run, one for each repetition
    unit: str = ""
    goal: str = ""  # what the figures were found for
    verdict: Verdict | None = None  # the worst of its results; None: it has none
    skipped: str | None = None  # why this machine cannot have it
    failed: str | None = None  # why it has no figures, or not all
    bundles: tuple[str, ...] = ()  # folders in the campaign's
    median: float | None = None
    low: float | None = None  # the median's interval: 95 % from six figures on; of fewer, all
    high: float | None = None
    at_least: bool = False  # its figures are lower bounds: the generator made no more packets
    left_out: bool = False  # by halving, before the others had all their runs


class CampaignOutput(Record):
    """What `headrace campaign` prints."""

    folder: str
    study: str
    points: tuple[CampaignPoint, ...]  # the highest figure first
