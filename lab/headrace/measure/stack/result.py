# SPDX-License-Identifier: Apache-2.0
"""What headrace-trace prints, as models: docs/trace.md says what each member means."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StageLatency(Part):
    """Latency between two stages on a device; a whole way's when in `end_to_end`."""

    # `from` is a keyword of Python.
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=lambda n: "from" if n == "begin" else n
    )

    begin: str
    to: str
    device: str
    ifindex: int
    netns: str
    netns_inum: int
    count: int
    sum_ns: int
    mean_ns: float
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    buckets: tuple[tuple[int, int], ...] = ()

    @property
    def place(self) -> str:
        return f"{self.netns or self.netns_inum}/{self.device or self.ifindex}"


class Drop(Part):
    reason: str
    device: str
    ifindex: int
    netns: str
    netns_inum: int
    packets: int


class Vector(Part):
    count: int
    time_ns: int
    share: float


class SoftirqCpu(Part):
    cpu: int
    vectors: dict[str, Vector]


class Program(Part):
    program: str
    runs: int
    run_time_ns: int
    ns_per_run: float
    recursion_misses: int


class LeftOut(Part):
    hook: str
    why: str


class Hop(Part):
    stage: str
    at_ns: int
    device: str
    netns: str
    cpu: int


class Path(Part):
    begin_ns: int
    latency_ns: int
    end: str
    proto: int
    source_port: int
    destination_port: int
    ip_id: int
    segment: bool
    fragment: bool
    head_replaced: bool
    hops: tuple[Hop, ...]
    drop_reason: str | None = None


class StackTrace(Part):
    version: int
    kernel: str
    backend: str
    sample: float
    duration_s: float
    packets: dict[str, int]
    lost: dict[str, int]
    lost_total: int
    stages: tuple[StageLatency, ...]
    end_to_end: tuple[StageLatency, ...]
    unfinished: dict[str, int]
    drops: tuple[Drop, ...]
    softirq: tuple[SoftirqCpu, ...] = ()
    programs: tuple[Program, ...]
    left_out: tuple[LeftOut, ...]
    paths: tuple[Path, ...]

    def program_ns(self) -> int:
        """Run time of all programs; 0 unless it was asked for."""
        return sum(p.run_time_ns for p in self.programs)
