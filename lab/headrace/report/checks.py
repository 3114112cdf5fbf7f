# SPDX-License-Identifier: Apache-2.0
"""Goals that were set beforehand, each beside what was measured: met or missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.analyse.units import NOT_KNOWN, percent
from headrace.report.document_model import Column, Section, Table

Text = Callable[[float], str]


def _share(value: float) -> str:
    return percent(value)


@dataclass(frozen=True)
class Check:
    """`figure` None: it could not be measured, and `why` not."""

    name: str
    goal: str
    figure: str | None
    met: bool
    why: str = ""

    @property
    def verdict(self) -> str:
        if self.figure is None:
            return "not measured"
        return "met" if self.met else "missed"

    def line(self) -> str:
        shown = f": {self.why}" if self.figure is None else f" {self.figure}"
        return f"{self.name}: goal {self.goal}, {self.verdict}{shown}"


def at_least(
    name: str, limit: float, value: float | None, text: Text = _share, why: str = ""
) -> Check:
    met = value is not None and value >= limit
    return Check(name, f"at least {text(limit)}", _shown(value, text), met, why)


def at_most(
    name: str, limit: float, value: float | None, text: Text = _share, why: str = ""
) -> Check:
    met = value is not None and value <= limit
    return Check(name, f"at most {text(limit)}", _shown(value, text), met, why)


def _shown(value: float | None, text: Text) -> str | None:
    return None if value is None else text(value)


def section(checks: Sequence[Check], note: str = "") -> Section:
    return Section(title="Goals", note=note, blocks=(table(checks),))


def table(checks: Sequence[Check]) -> Table:
    return Table(
        ("goal", "", "measured", Column("verdict", "text")),
        tuple((c.name, c.goal, c.figure or NOT_KNOWN, _verdict(c)) for c in checks),
    )


def _verdict(check: Check) -> str:
    return check.verdict + (f": {check.why}" if check.figure is None and check.why else "")
