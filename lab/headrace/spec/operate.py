# SPDX-License-Identifier: Apache-2.0
"""Chains that grow and shrink under loads that change, by one policy or several in turn."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.base import NAME_PATTERN, Count, Ratio, Seconds, Spec, listed
from headrace.spec.load import LoadCurve

PolicyName = Literal["headrace", "oracle", "static", "rsspp", "metron"]
ASKING: tuple[PolicyName, ...] = ("headrace", "oracle", "static")  # those that several chains have
SLO_FORMS = ("p99=200us,loss=0", "{p99: 200 us, loss: 0}")
_SLO = " or ".join(SLO_FORMS)
_PART = re.compile(r"^\s*(p99|loss)\s*=\s*(\S.*?)\s*$")


class Slo(Spec):
    """What is to be kept in each interval: its packets' p99 of latency, and the share of them that
    may be lost."""

    p99: Annotated[Seconds, Field(gt=0, le=60)]
    loss: Annotated[Ratio, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, dict | Slo):
            return value
        if not isinstance(value, str):
            raise ValueError(f"allowed: {_SLO}")
        parts = [_PART.match(part) for part in value.split(",")]
        given = {match[1]: match[2] for match in parts if match is not None}
        if None in parts or len(given) < len(parts):
            raise ValueError(f"allowed: {_SLO}")
        return {key: _number(one) for key, one in given.items()}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # with its unit


class StepCosts(Spec):
    """What it costs to change what runs: `start`, until a new lcore polls; of each bucket that is
    moved `bucket`, and `flow` for each flow of its state. Both lcores work for as long, and the
    bucket's packets wait. `share`: of the time, that moves take at most, lest lcores do nothing
    else. Assumed, unless measured where the chain runs."""

    start: Annotated[Seconds, Field(ge=0, le=60)] = 5e-3
    bucket: Annotated[Seconds, Field(ge=0, le=1)] = 20e-6
    flow: Annotated[Seconds, Field(ge=0, le=1)] = 200e-9
    share: Annotated[Ratio, Field(gt=0, le=1)] = 0.25


class SharedChain(Spec):
    """One of several chains on the same lcores. Where they need more than there are, they are
    divided by `weight`. `slo`: its own, if it is not that of all."""

    load: LoadCurve
    weight: Annotated[float, Field(ge=0.01, le=100)] = 1.0  # beyond that one has no lcore at all
    slo: Slo | None = None


class Operate(Spec):
    """The load is the workload's `load`, and the chain has as many lcores as it needs of those that
    `deployment.lcores.chain` names. Each policy has the same load, one after the other. With
    `chains` these lcores are shared by all chains of the study, each with a load of its own."""

    slo: Slo
    policy: Annotated[
        tuple[PolicyName, ...], BeforeValidator(listed), Field(min_length=1, max_length=8)
    ] = ("headrace", "static")
    interval: Annotated[Seconds, Field(ge=1e-3, le=1)] = 10e-3  # of telemetry, of decisions, and
    # of the windows in which the SLO is kept or not
    buckets: Annotated[Count, Field(ge=1, le=65536)] = (
        512  # of the flows' hash; each is moved whole
    )
    costs: StepCosts = StepCosts()
    model_error: Annotated[Ratio, Field(gt=-0.9, le=10)] = 0.0  # packets cost so much more than the
    # model says that decisions are made by
    # From each time on others than the chain hold this share of the last-level cache, which nobody
    # tells the policy.
    neighbour: Annotated[
        tuple[tuple[Seconds, Annotated[Ratio, Field(ge=0, lt=1)]], ...], Field(max_length=1000)
    ] = ()
    seed: Annotated[Count, Field(ge=0, lt=1 << 31)] = 1
    chains: dict[Annotated[str, Field(pattern=NAME_PATTERN)], SharedChain] = Field(
        default_factory=dict
    )
    # A chain that has fewer lcores than it needs has its source held back, before packets are late
    # or dropped behind functions that have worked on them.
    backpressure: bool = True

    @model_validator(mode="after")
    def _times_ascend(self) -> Operate:
        for (before, _), (after, _) in pairwise(self.neighbour):
            if not before < after:
                raise ValueError(
                    f"neighbour: {after:g} s follows {before:g} s; allowed: times that ascend"
                )
        return self

    @model_validator(mode="after")
    def _of_several_chains(self) -> Operate:
        if not self.chains:
            if "backpressure" in self.model_fields_set:
                raise ValueError("backpressure: one chain has no other; allowed: with `chains`")
            return self
        if self.neighbour:
            raise ValueError("neighbour: beside `chains`; allowed: with one chain")
        for name in self.policy:
            if name not in ASKING:
                raise ValueError(f"policy: {name}, of one chain; allowed with `chains`: "
                                 f"{', '.join(ASKING)}")  # fmt: skip
        return self

    def of_chain(self, name: str) -> Operate:
        """What is asked of one chain, with its own SLO."""
        one = self.chains.get(name)
        return self if one is None or one.slo is None else self.model_copy(update={"slo": one.slo})

    @model_validator(mode="after")
    def _each_once(self) -> Operate:
        for name in self.policy:
            if self.policy.count(name) > 1:
                raise ValueError(f"policy: {name} is there twice; allowed: each once")
        return self
