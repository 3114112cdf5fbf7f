# SPDX-License-Identifier: Apache-2.0
"""What a layout is chosen for, as it is asked for on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from headrace.errors import HeadraceError, bad_value
from headrace.layout import cut_search
from headrace.layout.cuts import Choice
from headrace.layout.layout import Problem
from headrace.spec.base import Rate, rate_text
from headrace.spec.plan import Aim

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class WantedLayout:
    aim: Aim = "throughput"
    rate_pps: float | None = None
    within_s: float | None = None
    share: float | None = None  # the load, as a share of the highest throughput

    @property
    def at_a_load(self) -> bool:
        return self.rate_pps is not None or self.share is not None

    def at(self, problem: Problem) -> WantedLayout:
        """The goal with the load in packets/s that the source makes."""
        if self.share is None:
            return self
        most = cut_search.best(problem).predicted_pps / problem.delivered
        return replace(self, rate_pps=self.share * most, share=None)


def wanted(aim: str | None, rate: str | None, slo: str | None) -> WantedLayout:
    """--slo and --rate alone ask for the fewest lcores."""
    if slo is not None and rate is not None:
        raise bad_value("--rate", rate, allowed="none beside --slo, which has a rate of its own")
    share = None if rate is None else _share(rate)
    rate_pps = None if rate is None or share is not None else _rate("--rate", rate)
    within = None
    if slo is not None:
        rate_pps, within = _slo(slo)
    loaded = rate_pps is not None or share is not None
    chosen = aim or ("lcores" if loaded else "throughput")
    if chosen not in get_args(Aim):
        raise bad_value("--aim", chosen, allowed=", ".join(get_args(Aim)))
    if chosen != "throughput" and not loaded:
        raise bad_value("--aim", chosen, allowed="with a load: --rate, or --slo rate=...")
    if chosen != "lcores" and slo is not None:
        raise bad_value("--aim", chosen, allowed="lcores, where an objective is given (--slo)")
    return WantedLayout(chosen, rate_pps, within, share)  # type: ignore[arg-type]


def _slo(given: str) -> tuple[float, float | None]:
    parts: dict[str, str] = {}
    for part in given.split(","):
        key, _, value = part.strip().partition("=")
        if key not in ("rate", "latency") or not value or key in parts:
            raise bad_value("--slo", given, allowed="rate=5M or rate=5M,latency=50us")
        parts[key] = value
    if "rate" not in parts:
        raise bad_value("--slo", given, allowed="a rate, too: a latency is one at a load")
    latency = parts.get("latency")
    return _rate("--slo", parts["rate"]), None if latency is None else _seconds(latency)


def _rate(option: str, given: str) -> float:
    try:
        pps = float(TypeAdapter(Rate).validate_python(given))
    except ValidationError:
        pps = 0.0
    if pps <= 0:
        more = ", or a share of the highest throughput, as 50%" if option == "--rate" else ""
        raise bad_value(option, given, allowed=f"packets per second, as 1500000 or 1.5M{more}")
    return pps


def _share(given: str) -> float | None:
    """None: it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", given)
    if match is None:
        return None
    if not 0 < float(match[1]) <= 100:
        raise bad_value("--rate", given, allowed="more than 0%, to 100%")
    return float(match[1]) / 100


def _seconds(given: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s)", given)
    if match is None or float(match[1]) <= 0:
        raise bad_value("--slo latency", given, allowed="a time, as 50us or 1.5ms")
    return float(match[1]) * _UNITS[match[2]]


def choose_layout(problem: Problem, asked: WantedLayout) -> Choice:
    if asked.rate_pps is None or asked.aim == "throughput":
        return cut_search.best(problem)
    if asked.aim == "latency":
        choice = cut_search.quickest(problem, asked.rate_pps)
    else:
        choice = cut_search.fewest(problem, asked.rate_pps, asked.within_s)
    if choice is not None:
        return choice
    most = cut_search.best(problem)
    text = f"{rate_text(asked.rate_pps)} packets/s"
    if asked.within_s is not None and most.predicted_pps >= asked.rate_pps:
        quick = cut_search.quickest(problem, asked.rate_pps)
        least = "" if quick is None or quick.latency_s is None else f" {quick.latency_s * 1e6:.3g}"
        raise HeadraceError(
            f"plan: {text} within {asked.within_s * 1e6:g} us are not met on "
            f"{len(problem.lcores)} lcores; predicted at best{least} us"
        )
    raise HeadraceError(
        f"plan: {text} are not reached on {len(problem.lcores)} lcores; "
        f"predicted at most {most.bound_pps:g}"
    )
