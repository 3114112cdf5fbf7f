# SPDX-License-Identifier: Apache-2.0
"""What a study's deployments say beside each other, as it keeps that with its samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel

from headrace.host.store import load

COMPARED_FILE = "bottleneck.json"


class Compared(BaseModel):
    """A study's bottleneck on a network, under a workload, and why. `doubtful`: some of the
    measurements are suspect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: str
    workload: str
    vnf: str | None
    sentences: tuple[str, ...]
    doubtful: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        what = "Suspect bottleneck" if self.doubtful else "Bottleneck"
        named = f"{what}: {self.vnf}." if self.vnf else "No VNF can be named as the bottleneck."
        return (named, *self.sentences)


class _AllCompared(RootModel[tuple[Compared, ...]]):
    """As the file has them."""


def write_compared(found: Sequence[Compared]) -> str:
    return _AllCompared(tuple(found)).model_dump_json(indent=1) + "\n"


def read_compared(samples: Path) -> tuple[Compared, ...]:
    """Of a study's folder of samples; none where it compared nothing."""
    path = samples / COMPARED_FILE
    return load(path, _AllCompared).root if path.is_file() else ()
