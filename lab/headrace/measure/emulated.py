# SPDX-License-Identifier: Apache-2.0
"""Trials of VNFs whose CPUs are emulated: nobody may take their figures for a server's."""

from __future__ import annotations

from headrace.measure.audit import with_findings
from headrace.record.rows import Trial
from headrace.record.verdict import Finding


def as_emulated(made: Trial, how: str) -> Trial:
    """`suspect` at best, with the reason among the audit's findings."""
    finding = Finding(
        check="emulated",
        ok=False,
        text=f"The VNFs' CPUs are emulated ({how}): it is shown that packets pass, not how fast.",
    )
    return made.model_copy(update={"audit": with_findings(made.audit, finding)})
