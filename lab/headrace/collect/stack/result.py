# SPDX-License-Identifier: Apache-2.0
"""What headrace-trace prints, as models: docs/trace.md says what each member means."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TracePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StageLatency(TracePart):
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


class Drop(TracePart):
    reason: str
    device: str
    ifindex: int
    netns: str
    netns_inum: int
    packets: int


class Vector(TracePart):
    count: int
    time_ns: int
    share: float


class SoftirqCpu(TracePart):
    cpu: int
    vectors: dict[str, Vector]


class Program(TracePart):
    program: str
    runs: int
    run_time_ns: int
    ns_per_run: float
    recursion_misses: int


class LeftOut(TracePart):
    hook: str
    why: str


class StackHop(TracePart):
    stage: str
    at_ns: int
    device: str
    netns: str
    cpu: int


class StackPath(TracePart):
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
    hops: tuple[StackHop, ...]
    drop_reason: str | None = None


class WholeWay(TracePart):
    """What became of the packets followed: whose whole way was seen, and who is left out of it.

    GSO packets are counted by the segments that they were cut into.
    """

    begun: int
    seen: dict[str, int]
    left_out: dict[str, int]

    @property
    def unaccounted(self) -> int:
        """0, unless the tracer's own books are wrong."""
        return self.begun - sum(self.seen.values()) - sum(self.left_out.values())

    def share(self, counts: dict[str, int]) -> float:
        return sum(counts.values()) / self.begun if self.begun else 0.0

    def sentences(self) -> tuple[str, str]:
        """What became of all packets followed, in shares that add up to 100 %."""
        return (
            f"To the end of their way: {self.share(self.seen):.1%} of the packets followed"
            f"{self._listed(self.seen)}.",
            f"Left out of the whole way: {self.share(self.left_out):.1%}"
            f"{self._listed(self.left_out | {'not accounted for': self.unaccounted})}.",
        )

    def _listed(self, counts: dict[str, int]) -> str:
        shares = {_FATES.get(k, k): n / self.begun for k, n in counts.items() if n}
        listed = ", ".join(f"{k} {s:.1%}" for k, s in sorted(shares.items(), key=lambda i: -i[1]))
        return f" ({listed})" if listed else ""


_FATES = {
    "delivered": "copied to an application",
    "consumed": "freed after use",
    "acked": "used up by TCP",
    "reassembled": "made a datagram",
    "gro_merged": "merged by GRO",
    "queue_merged": "merged in a socket's queue",
    "backlog_merged": "merged in a socket's backlog",
    "ended_shared": "freed while a clone held the data",
    "reuse_detected": "end not seen",
    "expired": "not seen for long",
    "unfinished": "under way at the end of tracing",
}


class StackTrace(TracePart):
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
    whole_way: WholeWay | None = None  # of a trace that was made before it was counted
    drops: tuple[Drop, ...]
    softirq: tuple[SoftirqCpu, ...] = ()
    programs: tuple[Program, ...]
    left_out: tuple[LeftOut, ...]
    paths: tuple[StackPath, ...]

    def program_ns(self) -> int:
        """Run time of all programs; 0 unless it was asked for."""
        return sum(p.run_time_ns for p in self.programs)
