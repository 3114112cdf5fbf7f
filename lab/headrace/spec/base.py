# SPDX-License-Identifier: Apache-2.0
"""The base of all spec models, and small types that several of them use."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

_SECONDS = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,2})?)\s*(us|ms|s|min|h)?\s*$")
_SECONDS_PER = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, None: 1.0}
_RATE = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE]\+?[0-9]{1,2})?)\s*([kMG]?)(?:pps)?\s*$")
_RATE_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_PERCENT = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*%\s*$")


class Spec(BaseModel):
    """Frozen, as a spec states what was asked; strict about keys, as a typo must not pass."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,
    )


class MedianRange(Spec):
    """What repetitions gave. Other work on the machine only adds to it: `min` is nearest to the
    hardware."""

    median: float
    min: float
    max: float


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        match = _SECONDS.match(value)
        if not match:
            raise ValueError("allowed: a number of seconds, or a number with us, ms, s, min or h")
        return float(match[1]) * _SECONDS_PER[match[2]]
    return value


def _rate(value: Any) -> Any:
    if isinstance(value, str):
        match = _RATE.match(value)
        if not match:
            raise ValueError("allowed: packets per second, as 1500000, 1.5M or 1.5Mpps")
        return float(match[1]) * _RATE_FACTOR[match[2]]
    return value


def rate_text(pps: float) -> str:
    """A rate as specs have it: 6k, 1.5M; with all its digits."""
    for unit, factor in reversed(_RATE_FACTOR.items()):
        if pps >= factor and unit:
            return f"{pps / factor:.10g}{unit}"
    return f"{pps:.10g}"


def _ratio(value: Any) -> Any:
    if isinstance(value, str):
        match = _PERCENT.match(value)
        if not match:
            raise ValueError("allowed: a ratio such as 0.001, or a percentage such as 0.1%")
        return float(match[1]) / 100.0
    return value


def is_ratio(value: Any) -> bool:
    """Says whether it is written as a ratio is, whatever its size."""
    if isinstance(value, str):
        return bool(_PERCENT.match(value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def not_a_bool(value: Any) -> Any:
    """YAML's `on` and `yes` are booleans, and Python would count them as 1."""
    if isinstance(value, bool):
        raise ValueError("allowed: a number")
    return value


def listed(value: Any) -> Any:
    """A single one is a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Count = Annotated[int, BeforeValidator(not_a_bool)]
Seconds = Annotated[float, BeforeValidator(_seconds), BeforeValidator(not_a_bool)]
Rate = Annotated[float, BeforeValidator(_rate), BeforeValidator(not_a_bool)]
Ratio = Annotated[float, BeforeValidator(_ratio), BeforeValidator(not_a_bool)]

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,30}$"
INTERFACE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$"  # IFNAMSIZ
CPUS_PATTERN = r"^[0-9]+([,-][0-9]+)*$"
DAEMON_PATTERN = r"^[a-z0-9]{2,16}$"
FIGURES_PATTERN = r"^[1-9][0-9]*(-[1-9][0-9]*)?$"
