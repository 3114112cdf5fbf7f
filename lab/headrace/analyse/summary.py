# SPDX-License-Identifier: Apache-2.0
"""Repetitions gathered: medians, means and spread of the results that belong together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from pydantic import Field, computed_field

from headrace.analyse.units import percent, pps
from headrace.record.estimates import Capacity
from headrace.record.frozen import Record
from headrace.record.identity import Origin
from headrace.record.rows import Result
from headrace.record.verdict import Verdict, worst

APPLICATION = (
    "gbps", "to_servers_gbps", "to_clients_gbps", "requests_per_s", "hit_ratio", "errors",
    "retransmits",
)  # fmt: skip
WIRE = "wire-"  # the rings in front of a chain (engine/plan_compiler.py)
AGREE_RATIO = 0.05  # repetitions that differ by more are reported as disagreeing


class Spread(Record):
    n: int
    median: float
    mean: float
    min: float
    max: float
    stdev: float | None = None  # of the sample; from two repetitions on

    @computed_field  # type: ignore[prop-decorator]
    @property
    def relative(self) -> float | None:
        """(max - min) / median; None when one repetition cannot tell."""
        if self.n < 2 or not self.median:
            return None
        return (self.max - self.min) / self.median


class ResultKey(Record):
    """What makes results comparable: repetitions share it, and so do two bundles."""

    chain: str
    workload: str
    direction: str
    execution: str
    goal: str
    ground: Origin = "measured"
    load_pps: float | None = None  # of fixed loads only; searches find their own
    load_share: str | None = None  # what it is a part of: as the study has it

    @property
    def goal_text(self) -> str:
        """With traffic both ways a load is asked for each way, and carried as their sum."""
        if self.load_pps is None:
            return self.load_share or self.goal
        name = self.goal if self.load_share is None else f"{self.load_share},"
        if self.direction == "both":
            return f"{name} 2 x {pps(self.load_pps / 2)}"
        return f"{name} {pps(self.load_pps)}"

    @property
    def asked(self) -> ResultKey:
        """The load as the study asks for it: a part of what a search finds is another load in each
        run."""
        return self if self.load_share is None else self.model_copy(update={"load_pps": None})


class Summary(Record):
    key: ResultKey
    verdict: Verdict
    repetitions: int
    excluded: int  # repetitions left out of the figures as invalid
    throughput_pps: Spread
    throughput_gbps_l1: Spread
    throughput_gbps_l2: Spread
    loss_ratio: Spread
    latency_ns: dict[str, Spread] = Field(default_factory=dict)
    pdv_ns: dict[str, Spread] = Field(default_factory=dict)
    ipdv_ns_mean: Spread | None = None
    nf_cycles: dict[str, Spread] = Field(default_factory=dict)
    cycles: Spread | None = None  # of all functions, per packet that came to the chain
    application: dict[str, Spread] = Field(default_factory=dict)  # what clients saw
    change: dict[str, Spread] = Field(default_factory=dict)  # of routes, where these converged
    disagree: bool = False  # throughput differs by more than AGREE_RATIO
    results: tuple[Result, ...]

    @property
    def trusted(self) -> bool:
        return self.verdict == "ok"

    @property
    def lower_bound(self) -> bool:
        """More might have gone through, had the generator made it. A fixed load was not to find
        out how much goes through: it bounds nothing, whoever fell short of it."""
        return self.verdict == "generator-bound" and self.key.goal != "fixed"

    @property
    def unmet_pps(self) -> float | None:
        """The lowest load that a search tried, where not even that met its goal in any repetition:
        then its trial is no figure of the chain. None: a load met it, or nothing was searched."""
        bounds = [r.bounds for r in self.results]
        if any(one is None or one.lower_pps is not None for one in bounds):
            return None
        return min((b.upper_pps for b in bounds if b and b.upper_pps is not None), default=None)

    @property
    def unsent(self) -> float:
        """The most, of the packets that were due, that was not made in a repetition: a search
        counts these as lost, the loss is of those that were made."""
        findings = (f for r in self.results for f in r.audit.findings if f.check == "unsent")
        return max((f.value or 0.0 for f in findings), default=0.0)

    @property
    def unmet_by_generator(self) -> bool:
        """No load met its goal, and not for what was lost."""
        goal = self.typical.goal_parameters
        if self.unmet_pps is None or goal is None:
            return False
        return self.loss_ratio.median <= goal.loss_ratio < self.unsent

    @property
    def by_policy(self) -> bool:
        """Packets were dropped on purpose, and are not in the loss: throughput is not the load."""
        return any(r.policy_dropped for r in self.results)

    @property
    def capacity(self) -> Capacity | None:
        """That of the repetition in the middle; None: one of them has none."""
        known = [r.capacity for r in self.results if r.capacity is not None]
        if len(known) < len(self.results):
            return None
        return sorted(known, key=lambda one: one.pps.value)[(len(known) - 1) // 2]

    @property
    def offered_pps(self) -> float:
        return statistics.median(r.sent_pps for r in self.results)

    @property
    def typical(self) -> Result:
        """The repetition nearest to the median: whose counters explain the figure."""
        return min(self.results, key=lambda r: abs(r.throughput_pps - self.throughput_pps.median))


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(
        n=len(values),
        median=statistics.median(values),
        mean=statistics.fmean(values),
        min=min(values),
        max=max(values),
        stdev=statistics.stdev(values) if len(values) > 1 else None,
    )


def key_of(result: Result) -> ResultKey:
    return ResultKey(
        chain=result.chain,
        workload=result.workload,
        direction=result.direction,
        execution=result.execution,
        goal=result.goal,
        ground=result.ground,
        load_pps=result.load_pps if result.goal == "fixed" else None,
        load_share=result.load_share,
    )


def summarise(results: Iterable[Result]) -> list[Summary]:
    """Keeps the order in which the results first appear."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(key_of(result).model_dump_json(), []).append(result)
    return [_summary(group) for group in groups.values()]


def _summary(group: list[Result]) -> Summary:
    # An invalid repetition measured something else; it is counted, its figure is not. When
    # all are invalid they are shown, under that label.
    valid = [r for r in group if r.audit.verdict != "invalid"]
    used = valid or group

    def over(get: Callable[[Result], float]) -> Spread:
        values = spread([get(r) for r in used])
        assert values is not None
        return values

    def fields(get: Callable[[Result], dict[str, float]]) -> dict[str, Spread]:
        rows = [get(r) for r in used]
        names = dict.fromkeys(name for row in rows for name in row)
        spreads = {name: spread([row[name] for row in rows if name in row]) for name in names}
        return {name: s for name, s in spreads.items() if s is not None}

    throughput = over(lambda r: r.throughput_pps)
    return Summary(
        key=key_of(group[0]),
        verdict=worst(r.audit.verdict for r in used),
        repetitions=len(group),
        excluded=len(group) - len(used),
        throughput_pps=throughput,
        throughput_gbps_l1=over(lambda r: r.throughput_gbps_l1),
        throughput_gbps_l2=over(lambda r: r.throughput_gbps_l2),
        loss_ratio=over(lambda r: r.loss_ratio),
        latency_ns=fields(lambda r: r.latency_ns.model_dump() if r.latency_ns else {}),
        pdv_ns=fields(lambda r: r.pdv_ns.model_dump() if r.pdv_ns else {}),
        ipdv_ns_mean=spread([r.ipdv_ns_mean for r in used if r.ipdv_ns_mean is not None]),
        nf_cycles=fields(lambda r: r.nf_cycles),
        cycles=spread([c for r in used if (c := functions_cycles(r)) is not None]),
        application=fields(_of_application),
        change=fields(_of_change),
        disagree=(throughput.relative or 0.0) > AGREE_RATIO,
        results=tuple(used),
    )


def agreement(results: Iterable[Result]) -> list[str]:
    """Says of each figure that was repeated whether its repetitions agree, as its table has it."""
    packets = [one for one in results if one.change is None and one.operated is None]
    return [
        f"{' / '.join((s.key.chain, s.key.execution, s.key.workload, s.key.direction))} / "
        f"{s.key.goal_text}: {s.throughput_pps.n} repetitions "
        f"{'do not agree' if s.disagree else 'agree'} within {AGREE_RATIO:.0%} "
        f"(median {pps(s.throughput_pps.median, 4)}, "
        f"spread {percent(s.throughput_pps.relative, 2)})"
        for s in summarise(packets)
        if s.throughput_pps.relative is not None
    ]


def functions_cycles(result: Result) -> float | None:
    """What the functions take of a packet that comes to the chain: one that half of the packets go
    past counts half, a switch that they cross twice counts twice."""
    replicas = [] if result.counters is None else result.counters.replicas
    wires = [n for r in replicas for link, n in r.inputs.items() if link.startswith(WIRE)]
    if not sum(wires):
        return sum(result.nf_cycles.values()) or None
    readings = [(name, nf.packets_in) for r in replicas for name, nf in r.nfs.items()]
    cycles = sum(result.nf_cycles.get(name, 0.0) * packets for name, packets in readings)
    return cycles / sum(wires) or None


CHANGE = ("per_s", "seconds", "reaction_s")


def _of_change(result: Result) -> dict[str, float]:
    return {} if result.change is None else {name: getattr(result.change, name) for name in CHANGE}


def _of_application(result: Result) -> dict[str, float]:
    seen = result.application
    figures = {} if seen is None else {name: getattr(seen, name) for name in APPLICATION}
    return {name: float(value) for name, value in figures.items() if value is not None}
