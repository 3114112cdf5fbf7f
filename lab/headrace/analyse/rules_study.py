# SPDX-License-Identifier: Apache-2.0
"""Rules on what a study of containers found by comparing its own deployments (NfvInsight section
5.1)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.evidence import Evidence
from headrace.collect.virtual_switch import BRIDGE
from headrace.host.programs import VSWITCHD


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


RULES = (narrowest_vnf,)
