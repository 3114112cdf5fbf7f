# SPDX-License-Identifier: Apache-2.0
"""A run in OpenMetrics' text form: the engines' counters by the names that they have themselves,
and what only the session knows. https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from headrace.live.scene import Onlooker, Scene
from headrace.record.latency import Histogram, decode, recorded

__all__ = ["CONTENT_TYPE", "exposition"]

# What the engine's metrics are (engine/core/control/prometheus.c).
HELP = {
    "headrace_nf_packets_in": "Packets into a function.",
    "headrace_nf_packets_out": "Packets out of a function, by edge.",
    "headrace_nf_packets_dropped": "Packets that a function dropped, by reason.",
    "headrace_nf_packets_created": "Packets that a function made.",
    "headrace_nf_packets_consumed": "Packets whose way ended in a function as it should.",
    "headrace_nf_packets_aborted": "Packets that a function took for malformed.",
    "headrace_nf_packets_held": "Packets that a function holds.",
    "headrace_nf_batches": "Bursts into a function.",
    "headrace_nf_sampled_cycles": "TSC cycles of a function in the polls that were timed.",
    "headrace_nf_sampled_packets": "Packets of a function in the polls that were timed.",
    "headrace_nf_counter": "A function's own counters.",
    "headrace_segment_polls": "Polls of a segment's replica.",
    "headrace_segment_idle_polls": "Polls that found no packet.",
    "headrace_segment_ops_cycles": "TSC cycles in which a replica was busy.",
    "headrace_segment_packets_in": "Packets that a replica took from a link.",
    "headrace_segment_packets_out": "Packets that a replica gave a link.",
    "headrace_segment_packets_full": "Packets that found a link full.",
    "headrace_link": "A link's own numbers, as its reference page has them.",
    "headrace_worker_ref_cycles": "TSC cycles of an lcore.",
    "headrace_worker_ops_cycles": "TSC cycles in which an lcore was busy.",
}
# Upper ends of the latency's buckets, in seconds: 1, 2 and 5 of each decade from 1 us to 1 s.
BUCKETS = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0)
VNF = "vnf"  # the label that tells a VNF's engine from the host's


def exposition(onlooker: Onlooker) -> str:
    scene = onlooker.look()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once((*_of_engines(onlooker.exposed()), *_of_run(scene))))
    text: str = generate_latest(registry).decode()
    return text


class _Once:
    """What prometheus_client calls a collector."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_engines(exposed: Mapping[str, str]) -> Iterator[Metric]:
    """One family for all engines; their text names no types."""
    families: dict[str, Metric] = {}
    for vnf, text in exposed.items():
        for untyped in text_string_to_metric_families(text):
            for sample in untyped.samples:
                name = sample.name.removesuffix("_total")
                kind = "counter" if name != sample.name else "gauge"
                family = families.setdefault(name, Metric(name, HELP.get(name, ""), kind))
                labels = sample.labels if not vnf else {**sample.labels, VNF: vnf}
                family.add_sample(sample.name, labels, sample.value)
    yield from families.values()


def _of_run(scene: Scene) -> Iterator[Metric]:
    about = {
        "study": scene.study, "bundle": scene.bundle, "chain": scene.chain,
        "execution": scene.execution,
    }  # fmt: skip
    yield InfoMetricFamily("headrace_run", "What is measured.", about)
    yield _gauge("headrace_run_point", "Number of the point that is measured.", scene.number)
    yield _gauge("headrace_run_points", "Points of the run, repetitions and all.", scene.total)
    yield _gauge("headrace_trial_running", "1 while a trial runs.", int(scene.trial is not None))
    if scene.trial is not None:
        load = scene.trial.load_pps
        yield _gauge("headrace_trial_load_pps", "Intended load, each way; 0: the maximum.", load)
    verdicts = CounterMetricFamily(
        "headrace_trials", "Trials that have ended, by their audit's verdict.", labels=["verdict"]
    )
    for verdict, count in scene.verdicts.items():
        verdicts.add_metric([verdict], count)
    yield verdicts
    failed = CounterMetricFamily(
        "headrace_audit_failed", "Trials that did not pass a check.", labels=["check"]
    )
    for check, count in scene.checks.items():
        failed.add_metric([check], count)
    yield failed
    yield _bounds(scene)
    yield from _traffic(scene)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def _bounds(scene: Scene) -> Metric:
    family = GaugeMetricFamily(
        "headrace_search_bound_pps",
        "The search's bounds so far, each way.",
        labels=["goal", "bound"],
    )
    for goal, ends in scene.bounds.items():
        for bound, value in zip(("lower", "upper"), ends, strict=True):
            if value is not None:
                family.add_metric([goal, bound], value)
    return family


def _traffic(scene: Scene) -> Iterator[Metric]:
    """Counts of the trial that goes on, or was the last: these begin anew with each trial."""
    sent = CounterMetricFamily(
        "headrace_trial_packets_sent", "By the sources, in this trial.", labels=["direction"]
    )
    received = CounterMetricFamily(
        "headrace_trial_packets_received",
        "Of what was sent in this trial, each packet once.",
        labels=["direction"],
    )
    times = HistogramMetricFamily(
        "headrace_latency_seconds",
        "One-way latency from the intended send time, in this trial.",
        labels=["direction"],
    )
    for way in scene.moment.ways if scene.moment and scene.deployed else ():
        sent.add_metric([way.direction], way.sent)
        received.add_metric([way.direction], way.received)
        if way.latency is not None:
            times.add_metric([way.direction], *_buckets(way.latency))
    yield from (sent, received, times)


def _buckets(taken: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts, and the sum of all latencies in seconds."""
    histogram = decode(taken.hdr)
    cumulative = np.zeros(len(BUCKETS))
    if histogram is not None:
        values, counts = recorded(histogram)
        # What is cut by a bucket's end counts above it.
        below = np.searchsorted(values, np.asarray(BUCKETS) * 1e9, side="right")
        cumulative = np.concatenate(([0], np.cumsum(counts)))[below]
    ends = map(floatToGoString, BUCKETS)
    buckets = [(end, float(count)) for end, count in zip(ends, cumulative, strict=True)]
    return [*buckets, ("+Inf", float(taken.count))], taken.mean_ns * taken.count / 1e9
