# SPDX-License-Identifier: Apache-2.0
"""What changed between two bundles: results against their spread, and what surrounded them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import computed_field

from headrace.analyse.changed import asked
from headrace.analyse.summary import ResultKey, Spread, Summary, summarise
from headrace.analyse.units import flat, plural, signed_percent, significant
from headrace.model.lines_between import same_state
from headrace.model.usual_trials import lines_between
from headrace.record.bundle import Bundle
from headrace.record.frozen import Record

# different: the ranges of the repetitions do not touch, nor is the step below the search's
# resolution. within-spread: they do. unknown: so few repetitions on a side cannot tell;
# the ranges of equal things with two each fail to touch by chance in one of three comparisons.
# not-trusted: an audit says that a side's figure is not the chain's.
Significance = Literal["different", "within-spread", "unknown", "not-trusted"]

FEWEST = 3  # repetitions a side; with them chance alone sets ranges apart in one of ten
PERCENTILES = {"p50": "p50", "p99": "p99", "p99.9": "p999"}  # as users read them: in a record
EXACT_LIMIT = 20_000  # ways to split the repetitions; more are not enumerated


_OTHERWISE: dict[Significance, str] = {
    "within-spread": "within the spread",
    "unknown": "of too few repetitions to tell",
    "not-trusted": "not compared, as a side is not trusted",
}


class MetricChange(Record):
    metric: str
    unit: str
    a: float
    b: float
    ratio: float | None  # b / a - 1
    significance: Significance
    p_value: float | None = None  # exact permutation test of the means; from 4 + 4 repetitions
    higher_is_better: bool
    better: bool | None = None  # where they differ


class ComparedResults(Record):
    key: ResultKey
    verdict_a: str
    verdict_b: str
    repetitions_a: int
    repetitions_b: int
    changes: tuple[MetricChange, ...]

    @property
    def trusted(self) -> bool:
        return self.verdict_a == self.verdict_b == "ok"


class Difference(Record):
    """One fact that is not the same; None: absent on that side."""

    where: Literal["spec", "environment"]
    name: str
    a: str | None
    b: str | None


class Diff(Record):
    """What `headrace diff` prints."""

    a: str
    b: str
    compared: tuple[ComparedResults, ...]
    only_a: tuple[ResultKey, ...]
    only_b: tuple[ResultKey, ...]
    differences: tuple[Difference, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """What it comes to: by throughput, beyond the spread, where that can be told."""
        if Path(self.a).resolve() == Path(self.b).resolve():
            return "a and b are the same bundle: nothing can differ."
        if not self.compared:
            return f"Nothing to compare: {self._apart()}."
        rates = [c for row in self.compared for c in row.changes if c.metric == "throughput"]
        told = [c for c in rates if c.significance == "different" and c.ratio is not None]
        parts = []
        for better, word in ((True, "faster"), (False, "slower")):
            some = [c.ratio or 0.0 for c in told if c.better == better]
            if some:
                parts.append(f"{len(some)} {word} (at most {signed_percent(max(some, key=abs))})")
        for what, name in _OTHERWISE.items():
            if n := sum(c.significance == what for c in rates):
                parts.append(f"{n} {name}")
        counted = f"{plural(len(self.compared), 'result')} of b against a's, by throughput"
        return f"{counted}: {', '.join(parts) or 'not told'}."

    def _apart(self) -> str:
        """Why no result of one side has its like on the other."""
        told = []
        for name in ("chain", "workload", "direction", "execution", "goal_text", "ground"):
            ours, theirs = (
                list(dict.fromkeys(getattr(key, name) for key in keys))
                for keys in (self.only_a, self.only_b)
            )
            if not {*ours} & {*theirs}:
                sides = (", ".join(values) or "none" for values in (ours, theirs))
                told.append("{} is {} in a, and {} in b".format(name.split("_")[0], *sides))
        if told:
            return "; ".join(told)
        return "no result has the same chain, workload, direction, execution and goal in both"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def changed(self) -> bool:
        return any(c.significance == "different" for row in self.compared for c in row.changes)


def diff(a: Bundle, b: Bundle) -> Diff:
    left = {s.key.asked: s for s in summarise(a.results())}
    right = {s.key.asked: s for s in summarise(b.results())}
    return Diff(
        a=str(a.path),
        b=str(b.path),
        compared=tuple(compare(left[key], right[key]) for key in left if key in right),
        only_a=tuple(key for key in left if key not in right),
        only_b=tuple(key for key in right if key not in left),
        differences=(
            *(Difference(where="spec", name=n, a=x, b=y) for n, x, y in asked(a, b)),
            *differences("environment", _facts(a), _facts(b)),
            *_between(a, b),
        ),
    )


def _between(a: Bundle, b: Bundle) -> list[Difference]:
    """The same machine may have had its lcores on other cores (model/lines_between.py)."""
    ours, theirs = lines_between(a.trials()), lines_between(b.trials())
    if ours is None or theirs is None or same_state(ours, theirs):
        return []
    name = "TSC cycles of a cache line that another lcore wrote"
    sides = {"a": significant(ours), "b": significant(theirs)}
    return [Difference(where="environment", name=name, **sides)]


def compare(a: Summary, b: Summary) -> ComparedResults:
    changes = []
    for metric, unit, higher_is_better, left, right in _metrics(a, b):
        resolution = _resolution(a, b) if metric == "throughput" else 0.0
        values = _values(a, metric), _values(b, metric)
        change = _change(metric, unit, left, right, higher_is_better, resolution, values)
        if not _usable(metric, a, b):
            change = change.model_copy(update={"significance": "not-trusted", "better": None})
        changes.append(change)
    return ComparedResults(
        key=a.key,
        verdict_a=a.verdict,
        verdict_b=b.verdict,
        repetitions_a=a.throughput_pps.n,
        repetitions_b=b.throughput_pps.n,
        changes=tuple(changes),
    )


def _usable(metric: str, a: Summary, b: Summary) -> bool:
    """A rate that the generator set is the generator's, and so are the load at which latency, loss
    and cycles were measured: a chain that waits for its generator finds few packets a poll, out of
    another core's hands, and pays up to three times as much for each (docs/design/handover.md). Of
    a fixed load these may be compared where both were made as asked. Where no load met the goal
    there is no figure at all."""
    verdicts = {a.verdict, b.verdict}
    if a.unmet_pps is not None or b.unmet_pps is not None:
        return False
    return "invalid" not in verdicts and "generator-bound" not in verdicts


def _metrics(a: Summary, b: Summary) -> Iterable[tuple[str, str, bool, Spread, Spread]]:
    if a.change and b.change:  # no packets
        for name, unit in (("per_s", "routes/s"), ("seconds", "s"), ("reaction_s", "s")):
            yield f"change {name}", unit, name == "per_s", a.change[name], b.change[name]
        return
    yield "throughput", "pps", True, a.throughput_pps, b.throughput_pps
    if a.loss_ratio.max or b.loss_ratio.max:
        yield "loss", "ratio", False, a.loss_ratio, b.loss_ratio
    for shown, name in PERCENTILES.items():
        if name in a.latency_ns and name in b.latency_ns:
            yield f"latency {shown}", "ns", False, a.latency_ns[name], b.latency_ns[name]
    if "p99" in a.pdv_ns and "p99" in b.pdv_ns:
        yield "PDV p99", "ns", False, a.pdv_ns["p99"], b.pdv_ns["p99"]
    for name, unit in (("gbps", "Gbit/s"), ("requests_per_s", "1/s")):
        if name in a.application and name in b.application:
            yield f"application {name}", unit, True, a.application[name], b.application[name]
    for nf in a.nf_cycles:
        if nf in b.nf_cycles:
            yield f"cycles {nf}", "cycles", False, a.nf_cycles[nf], b.nf_cycles[nf]


def _values(s: Summary, metric: str) -> list[float]:
    kind, _, name = metric.partition(" ")
    if kind == "throughput":
        return [r.throughput_pps for r in s.results]
    if kind == "loss":
        return [r.loss_ratio for r in s.results]
    if kind == "latency":
        return [getattr(r.latency_ns, PERCENTILES[name]) for r in s.results if r.latency_ns]
    if kind == "PDV":
        return [getattr(r.pdv_ns, name) for r in s.results if r.pdv_ns]
    if kind == "change":
        return [getattr(r.change, name) for r in s.results if r.change]
    if kind == "application":
        return [getattr(r.application, name) for r in s.results if r.application]
    return [r.nf_cycles[name] for r in s.results if name in r.nf_cycles]


def _resolution(a: Summary, b: Summary) -> float:
    """A search cannot tell rates that lie within its bounds' width."""
    goals = [r.goal_parameters for s in (a, b) for r in s.results if r.goal_parameters]
    return max((g.width for g in goals), default=0.0)


def _change(
    metric: str,
    unit: str,
    a: Spread,
    b: Spread,
    higher_is_better: bool,
    resolution: float,
    values: tuple[Sequence[float], Sequence[float]],
) -> MetricChange:
    ratio = b.median / a.median - 1 if a.median else None
    if min(a.n, b.n) < FEWEST:
        significance: Significance = "unknown"
    else:
        apart = a.max < b.min or b.max < a.min
        step = abs(ratio) if ratio is not None else float("inf")
        significance = "different" if apart and step > resolution else "within-spread"
    return MetricChange(
        metric=metric,
        unit=unit,
        a=a.median,
        b=b.median,
        ratio=ratio,
        significance=significance,
        p_value=permutation_p(*values),
        higher_is_better=higher_is_better,
        better=(b.median > a.median) == higher_is_better if significance == "different" else None,
    )


def permutation_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided and exact. Below 4 + 4 values it cannot get under 0.05, and None is said."""
    if min(len(a), len(b)) < 4:
        return None
    both = [*a, *b]
    splits = list(itertools.islice(itertools.combinations(range(len(both)), len(a)), EXACT_LIMIT))
    if len(splits) == EXACT_LIMIT:
        return None
    total = sum(both)

    def gap(chosen: float) -> float:
        return abs(chosen / len(a) - (total - chosen) / len(b))

    seen = gap(sum(a))
    slack = 1e-9 * (max(map(abs, both)) or 1.0)
    extreme = sum(gap(sum(both[i] for i in split)) >= seen - slack for split in splits)
    return extreme / len(splits)


def differences(
    where: Literal["spec", "environment"], a: dict[str, Any] | None, b: dict[str, Any] | None
) -> Iterable[Difference]:
    left, right = dict(flat(a or {})), dict(flat(b or {}))
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            yield Difference(where=where, name=name, a=left.get(name), b=right.get(name))


def _facts(bundle: Bundle) -> dict[str, Any] | None:
    e = bundle.environment
    # When it was collected, and what else went on then, differ always: a run that was disturbed
    # says so itself, and how much memory its engine gave out follows from its spec.
    left_out: dict[str, Any] = {"collected_at": True, "noise": True, "engine": {"heap_bytes"}}
    return None if e is None else e.model_dump(mode="json", exclude=left_out)
