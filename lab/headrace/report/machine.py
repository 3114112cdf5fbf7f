# SPDX-License-Identifier: Apache-2.0
"""The report as JSON for scripts; the names are stable and documented in docs/json.md."""

from __future__ import annotations

from typing import Any

from headrace.analyse.capacity import Part
from headrace.analyse.document import Explained, Report
from headrace.analyse.summary import Spread, Summary
from headrace.record.rows import Result

# Large, and in the bundle's Parquet for those who want them.
_NOT_IN_ROWS = {"counters", "latency_hdr"}


def row(result: Result) -> dict[str, Any]:
    """A result as `run --json` and `report --json` print it."""
    return result.model_dump(mode="json", exclude=_NOT_IN_ROWS)


def as_json(report: Report) -> dict[str, Any]:
    summaries = [s for g in report.groups for s in (*g.summaries, *g.single)]
    return {
        "bundle": report.path,
        "state": report.status.state,
        "reason": report.status.reason,
        "trials": report.trials,
        "cautions": list(report.cautions),
        "summaries": [_summary(s) for s in summaries],
        "bottlenecks": [_bottleneck(e) for g in report.groups for e in g.explained],
        "compared": [c.model_dump(mode="json") for g in report.groups for c in g.compared],
        "results": [row(r) for s in summaries for r in s.results],
        "environment": report.environment.model_dump(mode="json") if report.environment else None,
    }


def spread(s: Spread) -> dict[str, Any]:
    return {**s.model_dump(), "relative": s.relative}


def _spreads(named: dict[str, Spread]) -> dict[str, Any]:
    return {name: spread(s) for name, s in named.items()}


def _summary(s: Summary) -> dict[str, Any]:
    return {
        **s.key.model_dump(),
        "repetitions": s.repetitions,
        "excluded": s.excluded,
        "verdict": s.verdict,
        "disagree": s.disagree,
        "throughput_pps": spread(s.throughput_pps),
        "throughput_gbps_l1": spread(s.throughput_gbps_l1),
        "throughput_gbps_l2": spread(s.throughput_gbps_l2),
        "loss_ratio": spread(s.loss_ratio),
        "latency_ns": _spreads(s.latency_ns),
        "pdv_ns": _spreads(s.pdv_ns),
        "ipdv_ns_mean": spread(s.ipdv_ns_mean) if s.ipdv_ns_mean else None,
        "nf_cycles": _spreads(s.nf_cycles),
        "cycles": spread(s.cycles) if s.cycles else None,
        "application": _spreads(s.application),
    }


def _bottleneck(e: Explained) -> dict[str, Any]:
    return {
        **e.summary.key.model_dump(),
        "throughput_pps": e.pipe.throughput_pps,
        "narrowest": e.pipe.narrowest,
        "limit": e.pipe.limit.model_dump() if e.pipe.limit is not None else None,
        "marked": list(e.pipe.marked),
        "headline": e.pipe.headline,
        "reasons": list(e.pipe.reasons),
        "parts": [_part(p) for p in e.pipe.parts],
    }


def _part(p: Part) -> dict[str, Any]:
    return p.model_dump(mode="json")
