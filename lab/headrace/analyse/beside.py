# SPDX-License-Identifier: Apache-2.0
"""What the deployments of a study of third-party VNFs say beside each other."""

from __future__ import annotations

from pathlib import Path

from pydantic import RootModel

from headrace.record.frozen import Record
from headrace.record.own import sample_record

COMPARED_FILE = "bottleneck.json"  # among the samples of bundles of an earlier form


class Compared(Record):
    """A study's bottleneck on a network, under a workload, and why. `doubtful`: some of the
    measurements are suspect."""

    network: str
    workload: str
    vnf: str | None
    sentences: tuple[str, ...]
    doubtful: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        what = "Bottleneck, by suspect measurements" if self.doubtful else "Bottleneck"
        named = f"{what}: {self.vnf}." if self.vnf else "No VNF can be named as the bottleneck."
        return (named, *self.sentences)


class _AllCompared(RootModel[tuple[Compared, ...]]):
    """Comparisons as the file has them."""


def read_compared(samples: Path) -> tuple[Compared, ...]:
    told = sample_record(samples, COMPARED_FILE, _AllCompared)
    return () if told is None else told.root
