# SPDX-License-Identifier: Apache-2.0
"""A run's document as JSON for scripts; the names are stable and documented in docs/json.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headrace.analyse.beside import Compared
from headrace.analyse.bundle_report import Explained, Report
from headrace.analyse.capacity import Part
from headrace.analyse.conclusion import Conclusion
from headrace.analyse.grounds import GroundResults
from headrace.analyse.summary import ResultKey, Spread, Summary
from headrace.record.claim import JudgedClaim
from headrace.record.environment import Environment
from headrace.record.frozen import Record
from headrace.record.rows import ResultRow
from headrace.record.segments import Limit
from headrace.record.verdict import Verdict
from headrace.report.document_model import Document


class SummaryRow(ResultKey):
    """Repetitions gathered."""

    repetitions: int
    excluded: int
    verdict: Verdict
    disagree: bool
    throughput_pps: Spread
    throughput_gbps_l1: Spread
    throughput_gbps_l2: Spread
    loss_ratio: Spread
    latency_ns: dict[str, Spread]
    pdv_ns: dict[str, Spread]
    ipdv_ns_mean: Spread | None
    nf_cycles: dict[str, Spread]
    cycles: Spread | None
    application: dict[str, Spread]

    @classmethod
    def of(cls, s: Summary) -> SummaryRow:
        own = [name for name in cls.model_fields if name not in ResultKey.model_fields]
        return cls(**dict(s.key), **{name: getattr(s, name) for name in own})


class BottleneckRow(ResultKey):
    """Where a chain is narrowest."""

    throughput_pps: float
    narrowest: str | None
    limit: Limit | None
    marked: tuple[str, ...]
    headline: str
    reasons: tuple[str, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, e: Explained) -> BottleneckRow:
        own = [name for name in cls.model_fields if name not in ResultKey.model_fields]
        return cls(**dict(e.summary.key), **{name: getattr(e.pipe, name) for name in own})


class ReportOutput(Record):
    """What `headrace report` prints."""

    bundle: str
    state: Literal["running", "complete", "partial"]
    reason: str | None
    trials: int
    cautions: tuple[str, ...]
    summaries: tuple[SummaryRow, ...]
    bottlenecks: tuple[BottleneckRow, ...]
    compared: tuple[Compared, ...]
    sentence: str  # what all of it comes to
    conclusions: tuple[Conclusion, ...]  # of each chain and workload
    results: tuple[ResultRow, ...]
    document: Document  # what the page shows
    claims: tuple[JudgedClaim, ...]
    environment: Environment | None


class GroundClaims(Record):
    """A bundle of a study, and what became of the study's claims by its results."""

    bundle: str
    ground: str  # measured or predicted
    where: str  # the machine, or the described server
    claims: tuple[JudgedClaim, ...]


class GroundsOutput(Record):
    """headrace report, of several bundles"""

    sentence: str
    grounds: tuple[GroundClaims, ...]
    document: Document


def grounds_output(grounds: Sequence[GroundResults], document: Document) -> GroundsOutput:
    return GroundsOutput(
        sentence=document.sentence,
        grounds=tuple(
            GroundClaims(
                bundle=str(one.bundle.path), ground=one.ground, where=one.where, claims=one.claims
            )
            for one in grounds
        ),
        document=document,
    )


def report_output(report: Report, document: Document) -> ReportOutput:
    summaries = [s for g in report.groups for s in (*g.summaries, *g.single)]
    return ReportOutput(
        bundle=report.path,
        state=report.status.state,
        reason=report.status.reason,
        trials=report.trials,
        cautions=report.cautions,
        summaries=tuple(map(SummaryRow.of, summaries)),
        bottlenecks=tuple(BottleneckRow.of(e) for g in report.groups for e in g.explained),
        compared=tuple(c for g in report.groups for c in g.compared),
        sentence=document.sentence,
        conclusions=tuple(g.conclusion for g in report.groups if g.conclusion is not None),
        results=tuple(ResultRow.of(r) for s in summaries for r in s.results),
        document=document,
        claims=report.claims,
        environment=report.environment,
    )
