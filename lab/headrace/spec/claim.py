# SPDX-License-Identifier: Apache-2.0
"""A claim: what somebody says about a study's results, in a form that they can contradict."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from headrace.spec.base import Ratio, Spec
from headrace.spec.group import Needs

_EXPONENT = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]+")


def _number(value: Any) -> Any:
    """YAML 1.1 takes 1e9 for text: a number has a point and a sign before its exponent there."""
    written = isinstance(value, str) and _EXPONENT.fullmatch(value)
    return float(value) if written else value


def _pair(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) != 2:
        raise ValueError("allowed: a number, [least, most], true, false or text")
    return value


Number = Annotated[StrictInt | StrictFloat, BeforeValidator(_number)]
Range = Annotated[tuple[Number, ...], Field(min_length=2, max_length=2)]
Value = Annotated[StrictBool | Number | StrictStr | Range, BeforeValidator(_pair)]


class Claim(Spec):
    """`query` is SQL over the table `results` and gives one value, which is held against the
    `published` value (of `paper`, unless that is the study's) or the `expected` one: a number,
    within `tolerance` of it; [least, most]; true, false or text, which must be equal. A query
    that gives nothing, a need that this machine does not meet, and `unlike` (why nobody's figure
    may be held against this one) make a claim not comparable. A claim is `of` a rate, or of the
    cycles of packets: these are the same when the generator was the limit.
    """

    text: Annotated[str, Field(min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    published: Value | None = None
    expected: Value | None = None
    tolerance: Annotated[Ratio, Field(ge=0)] = 0.0
    of: Literal["rate", "cycles"] = "rate"
    unit: str = ""
    paper: str | None = None
    needs: tuple[Needs, ...] = ()
    unlike: str | None = None
    differs: str | None = None  # why a prediction for the paper's own server contradicts it

    @model_validator(mode="after")
    def _one_value(self) -> Claim:
        if (self.published is None) == (self.expected is None):
            raise ValueError("give `published` (a paper's value) or `expected` (anybody else's)")
        value = self.value
        if isinstance(value, tuple) and value[0] > value[1]:
            raise ValueError(f"[{value[0]}, {value[1]}]; allowed: [least, most]")
        if self.tolerance and (isinstance(value, bool | str)):
            raise ValueError("tolerance: belongs to a number, or to [least, most]")
        return self

    @property
    def value(self) -> bool | int | float | str | tuple[int | float, ...]:
        value = self.expected if self.published is None else self.published
        assert value is not None  # one of them is given
        return value
