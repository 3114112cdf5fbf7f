# SPDX-License-Identifier: Apache-2.0
"""A table that others published, and a model of what they measured: fitted at a few of its rows,
and held against at all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headrace.spec.base import Spec

ModelName = Literal["vswitch", "poller", "clock"]
# What each model has to be told, fitted or known.
_UNKNOWNS: dict[ModelName, tuple[str, ...]] = {
    "vswitch": ("port", "crossing", "in_share", "mixed", "copy_kib", "crowd", "vhost"),
    "poller": ("base", "pause_us", "pause_per_ms", "burst"),
    "clock": ("cycles", "wait_ns"),
}
_KNOWN: dict[ModelName, tuple[str, ...]] = {
    "vswitch": (),
    "poller": ("saturation_mpps", "mpps_per_x", "frame_bytes", "tester_ring"),
    "clock": (),
}


class FitUnknown(Spec):
    """Where the search begins. `spread`: of what is known beforehand, with `why`; without, it is
    free, and costs three figures."""

    value: float
    spread: Annotated[float, Field(gt=0)] | None = None
    why: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> FitUnknown:
        if (self.spread is not None) != bool(self.why):
            raise ValueError("`spread` and `why` go together: what is known beforehand, from where")
        return self


class Fitted(Spec):
    """Each row of a table on a described server. `table`: a CSV beside the spec. `points`: rows
    that are fitted on, by their columns."""

    server: str
    table: str
    model: ModelName
    rows: dict[str, tuple[Any, ...]] = Field(default_factory=dict)  # column: values; others left
    unknowns: Annotated[dict[str, FitUnknown], Field(min_length=1)]
    known: dict[str, float] = Field(default_factory=dict)  # figures of the set-up: not fitted
    points: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _all_of_its_model(self) -> Fitted:
        _whole("unknowns", self.unknowns, _UNKNOWNS[self.model], self.model)
        _whole("known", self.known, _KNOWN[self.model], self.model)
        return self


def _whole(key: str, given: Iterable[str], wanted: tuple[str, ...], model: ModelName) -> None:
    if set(given) != set(wanted):
        raise ValueError(
            f"{key}: got {', '.join(given) or 'none'}; allowed, all of them, with model {model}: "
            f"{', '.join(wanted) or 'none'}"
        )
