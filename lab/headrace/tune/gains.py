# SPDX-License-Identifier: Apache-2.0
"""What trying advice came to: which was considered and why, and what each gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from headrace.record import own
from headrace.record.bundle import Bundle
from headrace.record.frozen import Record
from headrace.record.rows import Measurement, Result
from headrace.tune.path import ServerPath
from headrace.tune.wish import BASELINE, Protocol

Topic = Literal["spread", "whole", "short"]
FINDINGS: dict[Topic, str] = {
    "spread": "Spread softirqs over the cores",
    "whole": "No needless fragmentation inside one server",
    "short": "A shorter way for what stays inside",
}
GAIN = 0.20  # what counts as a gain
ADVICE_FILE = "advice.json"  # among a bundle's samples


class Considered(Record):
    """Whether an advice applies to a protocol, and the reason."""

    advice: str
    finding: Topic
    protocol: Protocol
    applies: bool
    why: str
    changes: tuple[str, ...] = ()
    warning: str = ""


class Gain(Record):
    """Rate with the advice over the rate without it in the same round, less one."""

    advice: str
    finding: Topic
    protocol: Protocol
    median: float
    least: float
    most: float
    rounds: int
    sound: bool  # no checksum error, no wrong payload

    @property
    def helps(self) -> bool:
        """It does so by the median, and in most of the rounds at all."""
        return self.sound and self.median >= GAIN


class Advised(Record):
    """What was considered, and for which path: a bundle has it beside its results."""

    cpus: tuple[int, ...]  # sender on the first, receiver on the last
    message_bytes: int
    seconds: float
    path: ServerPath
    considered: tuple[Considered, ...]


class TuneOutput(Advised):
    bundle: str
    gains: tuple[Gain, ...]
    results: tuple[Result, ...]  # with each advice and without, round by round


@dataclass(frozen=True)
class Tuned:
    advised: Advised
    results: tuple[Result, ...]

    def output(self, bundle: Path) -> TuneOutput:
        advised = {name: getattr(self.advised, name) for name in Advised.model_fields}
        gains = tuple(self.gains())
        return TuneOutput(**advised, bundle=str(bundle), gains=gains, results=self.results)

    @property
    def protocols(self) -> list[Protocol]:
        return list(dict.fromkeys(c.protocol for c in self.advised.considered))

    def of(self, advice: str, protocol: Protocol) -> list[Result]:
        return [r for r in self.results if (r.execution, protocol_of(r)) == (advice, protocol)]

    def rates(self, advice: str, protocol: Protocol) -> dict[int, float]:
        """Round -> Gbit/s."""
        return {r.repetition: goodput_gbps(r) for r in self.of(advice, protocol)}

    def gains(self) -> list[Gain]:
        gains = []
        for c in self.advised.considered:
            rates, without = self.rates(c.advice, c.protocol), self.rates(BASELINE, c.protocol)
            each = sorted(
                rates[r] / without[r] - 1 for r in rates if r in without and without[r] > 0
            )
            if each:
                gains.append(
                    Gain(
                        advice=c.advice, finding=c.finding, protocol=c.protocol,
                        median=median(each), least=each[0], most=each[-1], rounds=len(each),
                        sound=self._sound(c.advice, c.protocol),
                    )
                )  # fmt: skip
        return gains

    def _sound(self, advice: str, protocol: Protocol) -> bool:
        results = self.of(advice, protocol)
        return not any(wrong(r) or checksum_errors(r) for r in results)

    def best(self) -> dict[tuple[Topic, Protocol], Gain]:
        """The best advice of each finding."""
        best: dict[tuple[Topic, Protocol], Gain] = {}
        for g in self.gains():
            key = (g.finding, g.protocol)
            if g.sound and (key not in best or g.median > best[key].median):
                best[key] = g
        return best


def read(bundle: Bundle) -> Tuned | None:
    """None where a bundle is of something else."""
    advised = own.sample_record(bundle.path / "samples", ADVICE_FILE, Advised)
    return None if advised is None else Tuned(advised, tuple(bundle.results()))


def protocol_of(result: Measurement) -> str:
    return result.workload.split(",")[0]


def goodput_gbps(result: Measurement) -> float:
    return result.application.gbps if result.application else 0.0


def counter(result: Measurement, name: str, parts: Sequence[str] = ()) -> int:
    """A counter's growth, over the parts that have it."""
    counters = result.application.counters if result.application else {}
    chosen = [values for part, values in counters.items() if part in parts or not parts]
    return sum(values.get(name, 0) for values in chosen)


def wrong(result: Measurement) -> int:
    """Messages whose content is not what was sent."""
    return counter(result, "wrong")


def checksum_errors(result: Measurement) -> int:
    return counter(result, "checksum_errors")


def packet_bytes(result: Measurement) -> float:
    packets = counter(result, "packets", ("sender",))
    return counter(result, "bytes", ("sender",)) / packets if packets else 0.0


def cpu_s_per_gb(result: Measurement) -> float:
    """CPU time of both processes, with system calls and the softirqs in them."""
    if result.application is None or not result.application.gbps:
        return 0.0
    return sum(result.application.cpu.values()) / (result.application.gbps / 8)


def softirq_shares(results: Sequence[Measurement], seconds: float) -> dict[str, float]:
    """Share of each core's time, mean over the results."""
    counters = [r.application.counters if r.application else {} for r in results]
    cores = [part for part, values in counters[0].items() if "softirq_us" in values]
    return {
        core: sum(c[core]["softirq_us"] for c in counters) / 1e6 / len(counters) / seconds
        for core in cores
    }
