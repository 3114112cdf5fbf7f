# SPDX-License-Identifier: Apache-2.0
"""What a run of `headrace tune` measured, as it is written to tune.json."""

from __future__ import annotations

from statistics import median
from typing import Literal

from pydantic import BaseModel, ConfigDict

from headrace.record.verdict import Audit
from headrace.tune.path import ServerPath

Protocol = Literal["tcp", "udp"]
PROTOCOLS: tuple[Protocol, ...] = ("tcp", "udp")
Finding = Literal["spread", "whole", "short"]
FINDINGS: dict[Finding, str] = {
    "spread": "Spread softirqs over the cores",
    "whole": "No needless fragmentation inside one server",
    "short": "A shorter way for what stays inside",
}
BASELINE = "as found"
GAIN = 0.20  # what counts as a gain


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TuneTrial(Part):
    """One run of the workload, with or without advice."""

    advice: str  # BASELINE: without any
    protocol: Protocol
    round: int
    gbps: float  # of payload that reached the receiver
    sent_gbps: float
    cpu_s_per_gb: float  # of both processes, system calls and the softirqs in them included
    softirq_s: dict[str, float]  # per core, of the whole machine
    packets: int  # that left the sender's device; what is never cut counts as one
    packet_bytes: float  # their mean size
    fragments: dict[str, int]  # received by namespace: server, receiver
    checksum_errors: int
    compared: int  # messages compared with what was sent
    wrong: int
    audit: Audit = Audit(verdict="not-audited")
    redirected: int | None = None  # by the shortcut
    shortcut_dropped: int | None = None  # AF_XDP: frames that found a ring full


class Considered(Part):
    """Whether an advice applies to a protocol, and the reason."""

    advice: str
    finding: Finding
    protocol: Protocol
    applies: bool
    why: str
    changes: tuple[str, ...] = ()
    warning: str = ""


class Gain(Part):
    """Rate with the advice over the rate without it in the same round, less one."""

    advice: str
    finding: Finding
    protocol: Protocol
    median: float
    least: float
    most: float
    rounds: int
    sound: bool  # no checksum error, no wrong payload

    @property
    def helps(self) -> bool:
        """By the median, and in most of the rounds at all."""
        return self.sound and self.median >= GAIN


class TuneResult(Part):
    version: int = 1
    kernel: str
    cpus: tuple[int, ...]
    load_average: tuple[float, float]  # before and after: others' work is in the figures
    message_bytes: int
    seconds: float
    path: ServerPath
    considered: tuple[Considered, ...]
    trials: tuple[TuneTrial, ...]

    def rates(self, advice: str, protocol: Protocol) -> dict[int, float]:
        """Round -> Gbit/s."""
        return {
            t.round: t.gbps for t in self.trials if (t.advice, t.protocol) == (advice, protocol)
        }

    def gains(self) -> list[Gain]:
        found = []
        for c in self.considered:
            rates, without = self.rates(c.advice, c.protocol), self.rates(BASELINE, c.protocol)
            each = sorted(
                rates[r] / without[r] - 1 for r in rates if r in without and without[r] > 0
            )
            if each:
                found.append(
                    Gain(
                        advice=c.advice, finding=c.finding, protocol=c.protocol,
                        median=median(each), least=each[0], most=each[-1], rounds=len(each),
                        sound=self._sound(c.advice, c.protocol),
                    )
                )  # fmt: skip
        return found

    def _sound(self, advice: str, protocol: Protocol) -> bool:
        return not any(
            t.wrong or t.checksum_errors
            for t in self.trials
            if (t.advice, t.protocol) == (advice, protocol)
        )

    def best(self) -> dict[tuple[Finding, Protocol], Gain]:
        """The best advice of each finding."""
        found: dict[tuple[Finding, Protocol], Gain] = {}
        for g in self.gains():
            key = (g.finding, g.protocol)
            if g.sound and (key not in found or g.median > found[key].median):
                found[key] = g
        return found
