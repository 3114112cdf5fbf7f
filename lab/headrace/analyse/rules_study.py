# SPDX-License-Identifier: Apache-2.0
"""Rules on what a study found by comparing its own deployments (NfvInsight section 5.1), and on
routing daemons whose routes all change."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules_machine import FULL_THREAD
from headrace.analyse.units import count, plural
from headrace.collect.virtual_switch import BRIDGE
from headrace.host.programs import VSWITCHD
from headrace.record.convergence import SPEAKER


def narrowest_vnf(e: Evidence) -> Iterator[Diagnosis]:
    for one in e.compared:
        if one.vnf is not None:
            yield Diagnosis(
                rule="narrowest-vnf",
                weight=Weight.ADVICE if one.doubtful else Weight.SHORTAGE,
                share=1.0,
                place=f"{one.network}, {one.workload}: {one.vnf}",
                text=f"{one.vnf} {'may be' if one.doubtful else 'is'} the bottleneck on "
                f"{one.network}, {one.workload}",
                evidence=one.sentences,
                remedy="another network (`deployment.network`), or fewer passages through it"
                if one.vnf in (BRIDGE, VSWITCHD)
                else f"more instances of {one.vnf} or more CPU for it where that raises the "
                "rate, less work in it where not",
            )


def busy_daemon(e: Evidence) -> Iterator[Diagnosis]:
    """A routing daemon handles its routes in one thread; the speaker is what tests it."""
    for one in e.converged:
        name, cpus = max(one.busy.items(), key=lambda item: item[1], default=("", 0.0))
        if cpus < FULL_THREAD:
            continue
        speaker = name == SPEAKER
        yield Diagnosis(
            rule="busy-daemon",
            weight=Weight.TESTER if speaker else Weight.SHORTAGE,
            share=min(1.0, cpus),
            place=f"{one.daemon}, {one.event}: {name}",
            text=f"{name} had {cpus:.2f} CPUs while {count(one.routes)} routes changed "
            f"({one.event}), and the engine took what came",
            evidence=(
                f"{one.daemon}: {one.per_s:.0f} routes/s, of {plural(one.changes, 'change')}",
            ),
            remedy="fewer routes for each speaker: it set the pace, not what is tested"
            if speaker
            else "another daemon, or routes announced in larger messages; the engine is not the "
            "limit",
        )


RULES = (narrowest_vnf, busy_daemon)
