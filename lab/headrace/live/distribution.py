# SPDX-License-Identifier: Apache-2.0
"""The latency of the trial that goes on, or was the last, from the sinks' histograms."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse import units
from headrace.live.scene import Scene
from headrace.record.latency import Histogram, latency
from headrace.record.moment import WayNow
from headrace.report.charts import percentiles
from headrace.report.document_model import Block, Chart, Column, Section, Table, Text, strokes

NONE = "No packet with a stamp has arrived in this trial."
NOTE = "From the intended send time; of the trial that goes on, or was the last."


def section(scene: Scene) -> Section:
    curves = [(c, s) for way, s in _taken(scene) if (c := _curve(way, s)) is not None]
    block: Block = Text(scene.unseen or NONE)
    if curves:
        keys = strokes(
            [
                f"{c.name}: mean {units.ns(s.mean_ns)}, {units.count(s.count)} packets"
                for c, s in curves
            ]
        )
        block = Chart(percentiles.Percentiles(tuple(c for c, _ in curves), None), keys)
    return Section("Latency", NOTE, (block,), anchor="latency")


def tables(scene: Scene) -> Iterator[Section]:
    names: tuple[str, ...] = ("min", "mean", "p50", "p90", "p99", "p999", "max")
    rows = []
    for way, taken in _taken(scene):
        if (delay := latency(taken)) is not None:
            values = (getattr(delay, name) for name in names)
            rows.append((way.direction, taken.count, *values))
    if rows:
        times = tuple(Column(name.replace("p999", "p99.9"), "time") for name in names)
        columns = (Column("direction", "text"), Column("packets", "count"), *times)
        yield Section("Percentiles", blocks=(Table(columns, tuple(rows)),))


def _taken(scene: Scene) -> Iterator[tuple[WayNow, Histogram]]:
    if scene.moment is not None:
        for way in scene.moment.ways:
            if way.latency is not None:
                yield way, way.latency


def _curve(way: WayNow, taken: Histogram) -> percentiles.PercentileCurve | None:
    return percentiles.curve_of(
        way.direction, [taken.hdr] if taken.hdr else [], (taken.min_ns, taken.max_ns)
    )
