# SPDX-License-Identifier: Apache-2.0
"""Whether a figure may be believed, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import NonNegativeInt

from headrace.record.frozen import Record

Verdict = Literal["ok", "generator-bound", "suspect", "invalid", "not-audited"]


# From best to worst.
VERDICTS: tuple[Verdict, ...] = ("ok", "not-audited", "suspect", "generator-bound", "invalid")
# Checks that fail by what others do on the machine: it comes and goes, and wrongs no side for good.
DISTURBANCES = frozenset({"preemption", "standstill", "stall", "pace", "alone"})


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """What can be said of several trials together."""
    return max(verdicts, key=VERDICTS.index, default="not-audited")


class Finding(Record):
    """One check of the audit. `text` is a whole sentence with the figures in it."""

    check: str  # e.g. "unsent", "stretched", "generator-utilisation", "conservation", "clock"
    ok: bool
    text: str
    value: float | None = None
    limit: float | None = None


class Audit(Record):
    """Whether the figure may be believed, and why.

    ok: every check passed. generator-bound: the generator, not the chain, set the figure.
    suspect: usable with the care its findings name. invalid: not a measurement of the chain
    (counters do not add up, path not verified, engine died). not-audited: nobody looked.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    unsent: NonNegativeInt = 0
    behind_max_ns: NonNegativeInt = 0
    duration_ns: NonNegativeInt | None = None
    intended_duration_ns: NonNegativeInt | None = None

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok)

    @property
    def trusted(self) -> bool:
        return self.verdict == "ok"
