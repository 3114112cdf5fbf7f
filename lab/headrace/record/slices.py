# SPDX-License-Identifier: Apache-2.0
"""What replicas did in slices of 10 ms of a trial: in memory only, for what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.record.counters import Counters
from headrace.record.segments import Segment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Column: TypeAlias = "npt.NDArray[np.float64]"

# An lcore, and all that its engine has: of those the same one is next to it, whose line it reads.
Way: TypeAlias = tuple[int, frozenset[int]]


@dataclass(frozen=True)
class ReplicaSlices:
    """Columns as docs/design/contracts.md names them, a value for each slice; all replicas of an
    lcore have the same slices."""

    segment: str
    index: int
    cpu: int
    tsc_hz: int
    additions: int  # of a pace sample
    columns: Mapping[str, Column]
    # TSC cycles of a line that the next lcore wrote, in the state of the machine whose slices count
    # (model/lines_between.py); None: all do.
    line: float | None = None

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


@dataclass(frozen=True)
class Sliced:
    """A trial's, while its sources sent, with what the engine counted in all of it."""

    load_pps: float  # each way; 0: as fast as possible
    segments: tuple[Segment, ...]
    counters: Counters
    replicas: tuple[ReplicaSlices, ...]
