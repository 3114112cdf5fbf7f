# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.record.pods import PodPlace


def rules_of(**pod: object) -> list[str]:
    place = PodPlace.model_validate(
        {"node": "node1", "qos": "Guaranteed", "cpus": (2, 3), "exclusive": True, **pod}
    )
    return [d.rule for d in explain(Evidence(pods={"c": {"tester": place}}))]


def test_a_virtual_function_of_another_socket_is_found() -> None:
    assert rules_of(cpu_nodes=(0,), devices={"0000:81:00.1": 1}) == ["pod-misaligned"]
    assert rules_of(cpu_nodes=(0,), devices={"0000:81:00.1": 0}) == []
    unknown = {"0000:81:00.1": -1}  # the kernel does not say
    assert rules_of(cpu_nodes=(0,), devices=unknown) == []


def test_cpus_on_two_sockets_are_found_where_they_are_the_pods_own() -> None:
    assert rules_of(cpu_nodes=(0, 1)) == ["pod-misaligned"]
    assert rules_of(cpu_nodes=(0, 1), exclusive=False) == []  # any of the node's


def test_only_pollers_mind_sharing() -> None:
    assert rules_of(exclusive=False, polls=True, qos="Burstable") == ["pod-shares-cpus"]
    assert rules_of(exclusive=False, qos="Burstable") == []


def test_a_limit_that_stops_is_found() -> None:
    assert rules_of(cpu_limit=0.5, periods=100, throttled=40) == ["pod-throttled"]
    assert rules_of(cpu_limit=0.5, periods=100, throttled=4) == []
    assert rules_of(cpu_limit=0.5) == []
