# SPDX-License-Identifier: Apache-2.0
"""Rules on CPU, by windows of samples with known answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.collect.samples import Window
from headrace.record.bundle import Bundle
from headrace.record.figures import ApplicationFigures


def held(used_cpus: float) -> Evidence:
    """Ten seconds of a NAT that may have a tenth of a CPU."""
    quota = {"forwarding_quota_cpus{nat}": 0.1}
    first = {"forwarding_cpu_ns{nat}": 5e9, **quota}
    last = {"forwarding_cpu_ns{nat}": 5e9 + used_cpus * 10e9, **quota}
    return Evidence(virtualization=Window(10.0, first, last, last))


def test_a_vnf_that_used_up_its_share_of_the_kernel_is_named() -> None:
    [diagnosis] = explain(held(0.099))
    assert (diagnosis.rule, diagnosis.place) == ("cpu-quota", "nat")
    assert diagnosis.evidence == ("it may use 0.1 CPUs and used 0.099",)
    assert not explain(held(0.07))


def test_the_trials_own_use_counts(bundle_path: Path) -> None:
    """Samples are of the warm-up and of the end, too, in which a VNF that is held all the time has
    used 70 % of its share: in 10 of 10 runs it was not named for that."""
    figures = ApplicationFigures(gbps=1.0, quota={"nat": 0.96})
    result = Bundle(bundle_path).results()[0].model_copy(update={"application": figures})
    diagnoses = [d for d in explain(replace(held(0.07), results=[result])) if d.place == "nat"]
    assert [d.rule for d in diagnoses] == ["cpu-quota"]
    assert diagnoses[0].evidence == ("it may use 0.1 CPUs and used 0.096",)
