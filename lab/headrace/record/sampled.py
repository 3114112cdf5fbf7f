# SPDX-License-Identifier: Apache-2.0
"""What was sampled beside a load, and what that cost: collectors.json beside the samples."""

from __future__ import annotations

from typing import Literal

from headrace.record.frozen import Record


class SamplingCost(Record):
    """CPU time of reading, of this process alone; what the kernel does for it is in there too."""

    samples: int
    cpu_s: float
    share_of_one_cpu: float
    late_samples: int  # began more than a period after their time


class SampledLayer(Record):
    metrics: dict[str, Literal["counter", "gauge"]]  # by name, which has the unit
    absent: dict[str, str]  # metrics that could not be read, and why
    cost: SamplingCost


class SamplingEpoch(Record):
    """One moment by both clocks: trials carry the time of day, samples CLOCK_MONOTONIC."""

    time_ns: int
    monotonic_ns: int


class Sampled(Record):
    """collectors.json"""

    version: int
    period_s: float
    epoch: SamplingEpoch
    refused: dict[str, str]  # layers that could not be sampled, and why
    layers: dict[str, SampledLayer]


class CollectOutput(Record):
    """What `headrace collect` prints."""

    folder: str  # where the samples are
    status: int  # the command's exit status; 0 without a command
    sampled: Sampled


class ReadableLayer(Record):
    """Whether a layer can be read: here, or on the server whose agent was asked."""

    refused: str | None = None  # why nothing of it can be read; null: something can
    absent: dict[str, str] = {}  # metrics that cannot, and why


class ReadableLayers(Record):
    """What `headrace collect --check` prints."""

    layers: dict[str, ReadableLayer]
