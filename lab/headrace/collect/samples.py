# SPDX-License-Identifier: Apache-2.0
"""Reads what the sampler wrote: the change of counters and the run of gauges, between two times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from headrace.errors import BadInput
from headrace.record.frozen import Record
from headrace.record.own import sample_file, sample_record
from headrace.record.sampled import Sampled, SampledLayer
from headrace.spec.collect import ALL_LAYERS

LINE_MOST, ROWS_MOST = 4 << 20, 1 << 29  # bytes of a layer's: one sample, all of them
Row = tuple[int, dict[str, float]]  # CLOCK_MONOTONIC, ns; series: value


@dataclass(frozen=True)
class Window:
    """First and last value of each series of one layer within a time, and how far apart."""

    seconds: float
    first: dict[str, float]
    last: dict[str, float]
    highest: dict[str, float]

    def change(self, metric: str) -> dict[str, float]:
        """Place -> growth of a counter."""
        return {
            place: self.last[key] - self.first[key]
            for key, place in self._series(metric)
            if key in self.first
        }

    def rate(self, metric: str) -> dict[str, float]:
        return {p: v / self.seconds for p, v in self.change(metric).items()} if self.seconds else {}

    def now(self, metric: str) -> dict[str, float]:
        return {place: self.last[key] for key, place in self._series(metric)}

    def peak(self, metric: str) -> dict[str, float]:
        return {place: self.highest[key] for key, place in self._series(metric)}

    def total(self, metric: str) -> float:
        return sum(self.change(metric).values())

    def _series(self, metric: str) -> Iterator[tuple[str, str]]:
        for key in self.last:
            name, brace, place = key.partition("{")
            if name == metric:
                yield key, place.removesuffix("}") if brace else ""


_NONE = Window(0.0, {}, {}, {})


class Samples:
    """The samples of a folder; layers that were not sampled are empty windows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.about = sample_record(folder, "collectors.json", Sampled)
        self._layers: dict[str, list[Row]] = {}  # as they were asked for

    @property
    def present(self) -> bool:
        return self.about is not None

    def window(self, layer: str, begin_ns: int = 0, end_ns: int | None = None) -> Window:
        """What lies between two CLOCK_MONOTONIC times; the whole by default."""
        if layer not in ALL_LAYERS:
            raise ValueError(layer)
        rows = [
            (t, values)
            for t, values in self._rows(layer)
            if t >= begin_ns and (end_ns is None or t <= end_ns)
        ]
        if not rows:
            return _NONE
        first: dict[str, float] = {}
        highest: dict[str, float] = {}
        last: dict[str, float] = {}
        for _, values in rows:
            for key, value in values.items():
                first.setdefault(key, value)
                highest[key] = max(value, highest.get(key, value))
            last.update(values)
        return Window((rows[-1][0] - rows[0][0]) / 1e9, first, last, highest)

    @property
    def refused(self) -> dict[str, str]:
        """Layers that could not be sampled, and why."""
        return dict(self.about.refused) if self.about is not None else {}

    @property
    def layers(self) -> dict[str, SampledLayer]:
        return dict(self.about.layers) if self.about is not None else {}

    def _rows(self, layer: str) -> list[Row]:
        if layer not in self._layers:
            self._layers[layer] = list(_rows(self._folder, f"{layer}.jsonl"))
        return self._layers[layer]


class _Sample(Record):
    t_ns: int
    values: dict[str, float]


def _rows(folder: Path, name: str) -> Iterator[Row]:
    file = sample_file(folder, name)
    if file is None:
        return
    with file:
        for number in count(1):
            line = file.readline(LINE_MOST + 1)
            if len(line) > LINE_MOST or file.tell() > ROWS_MOST:
                raise BadInput(
                    f"{folder / name}:{number}: is too long; allowed: lines of at most {LINE_MOST} "
                    f"bytes, {ROWS_MOST} in all"
                )
            if not line.endswith(b"\n"):
                return  # the end, or torn by a crash
            try:
                row = _Sample.model_validate_json(line)
            except ValidationError:
                raise BadInput(f"{folder / name}:{number}: not a sample") from None
            yield row.t_ns, row.values
