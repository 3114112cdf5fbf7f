# SPDX-License-Identifier: Apache-2.0
"""What is asked of the measurement: a search for loss-ratio goals, fixed loads, or maximum rate."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from headrace.spec.base import (
    Count,
    Rate,
    Ratio,
    Seconds,
    Spec,
    is_ratio,
    not_a_bool,
    rate_text,
)
from headrace.spec.operate import Operate

# Loss ratios by the names that people use. The tools differ: FD.io CSIT's NDR is zero loss and its
# PDR 0.5 %; NFVbench's NDR is 0.001 % and its PDR 0.1 %. `ndr` and `pdr` are NFVbench's.
NAMED_GOALS = {
    "zero": 0.0,
    "ndr": 1e-5,
    "pdr": 1e-3,
    "csit-ndr": 0.0,
    "csit-pdr": 5e-3,
}

PPS_MAX = 1e9  # 400 Gbit/s are 595 M frames of 64 bytes a second

_GOAL = f"one of {', '.join(NAMED_GOALS)}, a loss ratio such as 0.1%, or {{loss_ratio: 0.001, ...}}"


class GoalParameters(Spec):
    """MLRsearch's goal attributes (draft-ietf-bmwg-mlrsearch, section 4.6). The defaults are ours:
    an answer for two goals in half a minute to two; the library's own take 35 to 200 trials."""

    exceed_ratio: Annotated[Ratio, Field(ge=0, lt=1)] = 0.5  # trials that may lose more
    width: Annotated[Ratio, Field(gt=0, lt=1)] = 0.01  # of the bounds, at the end
    initial_trial: Annotated[Seconds, Field(ge=0.05, le=3600)] = 1.0  # length of the first trials
    final_trial: Annotated[Seconds, Field(ge=0.05, le=3600)] = 2.0  # length of the last trials
    duration_sum: Annotated[Seconds, Field(ge=0.05, le=36000)] = 10.0  # of trials at one load
    preceding_targets: Annotated[Count, Field(ge=0, le=8)] = 2  # coarser steps before
    expansion: Annotated[Count, Field(ge=2, le=16)] = 2  # of the width, by each

    @model_validator(mode="after")
    def _ordered(self) -> GoalParameters:
        if self.initial_trial > self.final_trial:
            raise ValueError(
                f"initial_trial {self.initial_trial:g} s is longer than "
                f"final_trial {self.final_trial:g} s"
            )
        if self.final_trial > self.duration_sum:
            raise ValueError(
                f"final_trial {self.final_trial:g} s is longer than "
                f"duration_sum {self.duration_sum:g} s"
            )
        return self


class GoalSpec(GoalParameters):
    name: Annotated[str, Field(min_length=1, max_length=40)]
    loss_ratio: Annotated[Ratio, Field(ge=0, lt=1)]


def as_goal(value: Any, defaults: dict[str, Any]) -> Any:
    """A goal in full; what is no goal is left for the check of each to refuse, at its place."""
    if isinstance(value, str) and value in NAMED_GOALS:
        value = {"name": value, "loss_ratio": NAMED_GOALS[value]}
    elif is_ratio(value):
        value = {"loss_ratio": value}
    if not isinstance(value, dict):
        return value
    value = {**defaults, **value}
    if "loss_ratio" not in value and value.get("name") in NAMED_GOALS:
        value["loss_ratio"] = NAMED_GOALS[value["name"]]
    if "name" not in value and "loss_ratio" in value:
        value["name"] = f"loss-{value['loss_ratio']}"
    return value


def _has_a_goals_form(value: Any) -> Any:
    if not isinstance(value, dict | GoalSpec):
        raise ValueError(f"allowed: {_GOAL}")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float | dict) else value


Goal = Annotated[GoalSpec, BeforeValidator(_has_a_goals_form)]


_SHARE = re.compile(
    r"^\s*(?P<share>[0-9.]+\s*%)\s+of\s+(?P<goal>\S+)(\s+of\s+(?P<execution>.+?))?\s*$"
)


class LoadShare(Spec):
    """A part of what the search found for a goal: of the lower bound, in the first repetition, of
    each execution's own, or of the one that is named."""

    share: Annotated[Ratio, Field(gt=0, le=2)]
    goal: Annotated[str, Field(min_length=1, max_length=40)]
    execution: Annotated[str, Field(min_length=1, max_length=60)] | None = None

    @property
    def text(self) -> str:
        whose = "" if self.execution is None else f" of {self.execution}"
        return f"{self.share * 100:.10g}% of {self.goal}{whose}"


def _possible(pps: float) -> float:
    if not 0 < pps <= PPS_MAX:
        raise ValueError(
            f"allowed: above 0, at most {rate_text(PPS_MAX)}: packets/s, which a load is, not bit/s"
        )
    return pps


def _load(value: Any) -> Any:
    """`50% of ndr`, or `50% of ndr of pipeline`; all else is a rate."""
    if isinstance(value, str) and "of" in value:
        match = _SHARE.match(value)
        if not match:
            raise ValueError("allowed: a rate as 1.5M, `50% of ndr`, or `50% of ndr of EXECUTION`")
        return {key: part for key, part in match.groupdict().items() if part is not None}
    return value


def _load_tag(value: Any) -> str:
    """A tag is no key of a load, so that an error's path stays the file's."""
    return "a share" if isinstance(value, dict | LoadShare) else "a rate"


PossibleRate = Annotated[Rate, AfterValidator(_possible), Field(gt=0, le=PPS_MAX)]
Load = Annotated[
    Annotated[PossibleRate, Tag("a rate")] | Annotated[LoadShare, Tag("a share")],
    Discriminator(_load_tag),
    BeforeValidator(_load),
]

_ALONE = ("chaos", "convergence", "operate")
ASKED = ("search", "loads", "max", *_ALONE)


def _asks(value: Any) -> bool:
    """Says whether a value asks for something. Also a wrong one does, such as a load of 0: it is
    told what is wrong with it."""
    return value is not None and value is not False and value not in ("", [], (), {})


class Chaos(Spec):
    """A random VNF is killed `every` so often, and started again, while the one load of `loads`
    goes through all of them. The host must not notice. `how: handed-over`: it is not killed, but
    gives what it keeps to the one that is started in its place, for which packets wait."""

    every: Annotated[Seconds, Field(ge=0.1, le=3600)] = 1.0
    duration: Annotated[Seconds, Field(ge=1, le=86400)] = 600.0
    seed: Annotated[Count, Field(ge=0)] = 1
    how: Literal["killed", "handed-over"] = "killed"


class Convergence(Spec):
    """Routes that a BGP speaker announces to a VNF's daemon, changes and withdraws: how many a
    second reach the engine's table. `prefixes`: a file with one IPv4 prefix a line, the first
    `routes` of which are taken; `timeout`: of each change of all routes."""

    routes: Annotated[Count, Field(ge=100, le=1 << 20)] = 200_000
    prefixes: str | None = None
    rounds: Annotated[Count, Field(ge=1, le=1000)] = 5
    timeout: Annotated[Seconds, Field(ge=1, le=86400)] = 600.0


class Measure(Spec):
    """Maximum rate, fixed loads, goals of one search, loads that are a part of what it found: any
    of them, done in this order. Before a search or maximum rate, executions of one chain are
    compared in `pairs` turns, each at its limit for a second. Or what becomes of a load while VNFs
    are killed, how fast routes converge, or how many lcores a load that changes needs."""

    search: Annotated[tuple[Goal, ...], Field(max_length=16)] = ()  # goals: the highest load at
    # which the loss ratio is kept
    loads: Annotated[
        tuple[Load, ...],
        BeforeValidator(_listed),
        Field(max_length=1000),
    ] = ()  # trials at these packets/s
    max: bool = False  # one trial as fast as the source can
    pairs: Annotated[Count, Field(ge=0, le=100)] = 5  # turns in which executions are compared
    losses: Literal["all", "unintended"] = "all"  # which losses count: `unintended` leaves out what
    # a function was told to drop
    goals: GoalParameters = GoalParameters()  # attributes of all goals
    trial: Annotated[Seconds, Field(ge=0.05, le=86400)] = 2.0  # length of trials of `max` and
    # `loads`
    min_load: PossibleRate = 10e3  # where a search begins
    max_load: PossibleRate | None = None  # where a search ends; found if
    # not given
    search_timeout: Annotated[Seconds, Field(ge=1, le=86400)] = 300.0  # after which a search ends
    # with the bounds that it has
    patience: Annotated[Seconds, Field(ge=0, le=86400)] = 15.0  # for how long in all a search waits
    # for other work on its lcores to pass, before it repeats what that disturbed
    drain: Annotated[Seconds, Field(ge=0.001, le=60)] = 0.1  # wait for the last packets before
    # counters are read
    chaos: Chaos | None = None  # VNFs are killed at the one load of `loads`
    convergence: Convergence | None = None  # how fast routes reach the engine
    operate: Operate | None = None  # lcores added and removed under the workload's `load`

    @model_validator(mode="before")
    @classmethod
    def _goals(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        if not any(key in value if key in _ALONE else _asks(value.get(key)) for key in ASKED):
            for key in ("search", "loads"):
                if key in value:
                    raise ValueError(f"{key}: is empty, and nothing else is asked; allowed: "
                                     "one or more, or no such key: NDR and PDR then")  # fmt: skip
            value["search"] = ["ndr", "pdr"]
        shared = value.get("goals") if isinstance(value.get("goals"), dict) else {}
        search = value.get("search", [])
        if isinstance(search, str | float | dict):
            search = [search]
        if isinstance(search, list | tuple):
            value["search"] = [as_goal(goal, dict(shared or {})) for goal in search]
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Measure:
        if self.max_load is not None and self.max_load <= self.min_load:
            raise ValueError(
                f"max_load {rate_text(self.max_load)} is not above "
                f"min_load {rate_text(self.min_load)} packets/s"
            )
        self._one_kind()
        names = [goal.name for goal in self.search]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"goal {name!r} is given twice; allowed: unique names")
        loads = [one if isinstance(one, float) else one.text for one in self.loads]
        for load in loads:
            if loads.count(load) > 1:
                text = load if isinstance(load, str) else rate_text(load)
                raise ValueError(f"loads: {text} is given twice; allowed: each load once")
        for one in self.shares:
            if one.goal not in names:
                raise ValueError(
                    f"loads: {one.text}: {one.goal} is no goal of `search`; "
                    f"allowed: {', '.join(names) or 'a goal that `search` has'}"
                )
        return self

    @property
    def rates(self) -> tuple[float, ...]:
        """Loads that are known before anything is measured."""
        return tuple(one for one in self.loads if not isinstance(one, LoadShare))

    @property
    def shares(self) -> tuple[LoadShare, ...]:
        """Loads that follow from a search."""
        return tuple(one for one in self.loads if isinstance(one, LoadShare))

    def _one_kind(self) -> None:
        """Chaos is at one load; what converges has none, what is operated the workload's."""
        for alone in ("convergence", "operate"):
            others = [key for key in ASKED if key != alone and getattr(self, key)]
            if getattr(self, alone) is not None and others:
                raise ValueError(f"{alone}: beside {', '.join(others)}; allowed: alone")
        if self.chaos is None:
            return
        if self.search or self.max:
            raise ValueError("chaos: beside search or max; allowed: with one load in `loads`")
        if len(self.loads) != 1:
            raise ValueError(
                f"chaos: is at one load, and `loads` has {len(self.loads)}; allowed: loads: [50k]"
            )


Repetitions = Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=1000)]
