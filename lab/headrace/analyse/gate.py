# SPDX-License-Identifier: Apache-2.0
"""Conditions on a comparison, as a pipeline of tests has them: kept, broken, or not to be told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from headrace.analyse.diff import ComparedResults, Diff, MetricChange
from headrace.analyse.pairs import Comparison, PairedResults
from headrace.analyse.summary import ResultKey
from headrace.analyse.units import signed_percent
from headrace.errors import bad_value
from headrace.record.estimates import Paired
from headrace.record.frozen import Record

# The values of MetricChange.metric; a function's cycles are `cycles NAME`.
METRICS = (
    "throughput", "capacity", "loss", "latency p50", "latency p99", "latency p99.9", "PDV p99",
    "cycles",
)  # fmt: skip
_FORM = re.compile(r"^\s*(?:(?P<metric>\S.*?)\s+)?worse\s*:\s*(?P<percent>[0-9.]+)\s*%\s*$")

State = Literal["kept", "broken", "unknown"]


class Judged(Record):
    """One condition on one figure. `unknown`: the repetitions cannot tell, or are not trusted."""

    of: str  # the result
    metric: str
    condition: str
    state: State
    text: str  # why


class GatedDiff(Diff):
    """headrace diff: with what came of the conditions"""

    judged: tuple[Judged, ...]


class GatedComparison(Comparison):
    """headrace compare: with what came of the conditions"""

    judged: tuple[Judged, ...]


@dataclass(frozen=True)
class Condition:
    """A figure may not get worse by more than `limit`, a ratio."""

    text: str
    metric: str  # "": every one that has a better and a worse
    limit: float

    @classmethod
    def of(cls, text: str) -> Condition:
        match = _FORM.match(text)
        metric = (match["metric"] or "") if match else ""
        known = not metric or metric in METRICS or metric.startswith("cycles ")
        try:
            limit = float(match["percent"]) / 100 if match and known else -1.0
        except ValueError:
            limit = -1.0
        if not 0 <= limit < 1:
            raise bad_value("--fail-if", text, allowed="`worse: 3%`, or one figure's, as "
                            f"`throughput worse: 3%`: {', '.join(METRICS)}")  # fmt: skip
        return cls(" ".join(text.split()), metric, limit)

    def takes(self, metric: str) -> bool:
        return not self.metric or metric == self.metric or (
            self.metric == "cycles" and metric.startswith("cycles ")
        )  # fmt: skip


def name_of(key: ResultKey) -> str:
    ground = "" if key.ground == "measured" else f", {key.ground}"
    way = "" if key.direction == "forward" else f", {key.direction}"
    return f"{key.chain}, {key.execution}, {key.goal_text}, {key.workload}{way}{ground}"


def judge_diff(compared: Diff, conditions: Sequence[Condition]) -> tuple[Judged, ...]:
    """A result that only the first bundle has cannot be told, and neither can nothing at all."""
    judged = [
        one for condition in conditions for row in compared.compared for one in _row(row, condition)
    ]
    for condition in conditions:
        judged += [
            _judged(name_of(key), condition, "throughput", "unknown", "b has no such result")
            for key in compared.only_a
        ]
        if not any(one.condition == condition.text for one in judged):
            judged.append(
                _judged("all", condition, condition.metric or "any", "unknown", "no such figure")
            )
    return tuple(judged)


def _row(row: ComparedResults, condition: Condition) -> Iterator[Judged]:
    for change in row.changes:
        if condition.takes(change.metric):
            state, why = _change(change, condition.limit)
            yield _judged(name_of(row.key), condition, change.metric, state, why)


def _change(change: MetricChange, limit: float) -> tuple[State, str]:
    if change.significance == "not-trusted":
        return "unknown", "a side is not trusted"
    if change.ratio is None:
        return ("kept", "none on both sides") if change.b == change.a else (
            "broken" if change.better is False else "unknown", "there was none before"
        )  # fmt: skip
    text = f"{signed_percent(change.ratio)}, {change.significance}"
    if change.significance == "unknown":
        return "unknown", "too few repetitions to tell"
    worse = -change.ratio if change.higher_is_better else change.ratio
    if worse <= limit:
        return "kept", text
    return ("broken" if change.significance == "different" else "unknown"), text


def judge_pairs(pairs: Iterable[PairedResults], conditions: Sequence[Condition]) -> tuple[
    Judged, ...
]:  # fmt: skip
    """Goes by the interval of a paired ratio: all of it beyond the limit, none of it, or some. Of
    rates and, where both sides have them, of capacities."""
    rows = list(pairs)
    judged = []
    for condition in conditions:
        for one in rows:
            name = name_of(one.key)
            capacity = None if one.capacity is None else one.capacity.paired
            if condition.takes("throughput"):
                state, text = _interval(one.paired, one.why, condition.limit)
                if one.paired is not None and one.doubted:
                    text += f"; the audit doubts {one.doubted} of {one.paired.pairs} pairs"
                judged.append(_judged(name, condition, "throughput", state, text))
            if condition.metric == "capacity" or (capacity and condition.takes("capacity")):
                told = _interval(capacity, "a side has none", condition.limit)
                judged.append(_judged(name, condition, "capacity", *told))
        if not any(one.condition == condition.text for one in judged):
            why = "no such figure is compared; allowed: throughput, capacity" if rows else "no pair"
            judged.append(_judged("all", condition, condition.metric or "any", "unknown", why))
    return tuple(judged)


def _interval(paired: Paired | None, why: str, limit: float) -> tuple[State, str]:
    if paired is None:
        return "unknown", why
    ratio = paired.ratio
    text = f"b/a {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    if ratio.low >= 1 - limit:
        return "kept", text
    return ("broken" if ratio.high < 1 - limit else "unknown"), text


def _judged(of: str, condition: Condition, metric: str, state: State, why: str) -> Judged:
    return Judged(of=of, metric=metric, condition=condition.text, state=state, text=why)


def junit(suite: str, judged: Sequence[Judged]) -> str:
    """JUnit's XML: broken conditions are failures; what cannot be told is an error, as nothing was
    shown."""
    counts = {state: sum(one.state == state for one in judged) for state in ("broken", "unknown")}
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(
        root, "testsuite", name=suite, tests=str(len(judged)),
        failures=str(counts["broken"]), errors=str(counts["unknown"]),
    )  # fmt: skip
    for one in judged:
        case = ElementTree.SubElement(
            element, "testcase", classname=one.of, name=f"{one.metric}: {one.condition}"
        )
        if one.state != "kept":
            tag = "failure" if one.state == "broken" else "error"
            ElementTree.SubElement(case, tag, message=one.text)
        else:
            ElementTree.SubElement(case, "system-out").text = one.text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
