# SPDX-License-Identifier: Apache-2.0
"""Rules on CPU, by windows of samples with known answers."""

from __future__ import annotations

from headrace.analyse.evidence import Evidence
from headrace.analyse.rules import explain
from headrace.collect.samples import Window


def held(used_cpus: float) -> Evidence:
    """Ten seconds of a NAT that may have a tenth of a CPU."""
    quota = {"forwarding_quota_cpus{nat}": 0.1}
    first = {"forwarding_cpu_ns{nat}": 5e9, **quota}
    last = {"forwarding_cpu_ns{nat}": 5e9 + used_cpus * 10e9, **quota}
    return Evidence(virtualization=Window(10.0, first, last, last))


def test_a_vnf_that_used_up_its_share_of_the_kernel_is_named() -> None:
    [said] = explain(held(0.099))
    assert (said.rule, said.place) == ("cpu-quota", "nat")
    assert said.evidence == ("it may use 0.1 CPUs and used 0.099",)
    assert not explain(held(0.07))
