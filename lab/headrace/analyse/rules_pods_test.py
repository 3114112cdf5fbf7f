# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.analyse.diagnosis import Diagnosis
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.analyse.units import percent
from headrace.collect.samples import Window
from headrace.record.pods import PodPlace
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.record.verdict import Audit, Verdict


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


def test_memory_of_another_socket_is_found() -> None:
    assert rules_of(cpu_nodes=(0,), memory_nodes=(1,)) == ["pod-misaligned"]
    assert rules_of(cpu_nodes=(0,), memory_nodes=(0, 1)) == []  # the kernel takes the nearest


def window(last: dict[str, float]) -> Window:
    return Window(10.0, dict.fromkeys(last, 0.0), last, last)


NAT = {"c": {"nat": PodPlace(node="node1", qos="Burstable", cpus=(0,), exclusive=False)}}


def test_packets_of_the_clusters_network_are_found() -> None:
    def by(cluster: float, own: float) -> list[tuple[str, str, tuple[str, ...]]]:
        counts = {"eth0": cluster, "up": own, "down": own}
        read = window({f"rx_packets{{nat/{device}}}": n for device, n in counts.items()})
        every = explain(Evidence(virtualization=read, pods=NAT))
        return [(d.rule, d.place, d.evidence) for d in every]

    assert by(5000, 2500) == [("pod-cluster-network", "nat", ("5000 of 10000 packets",))]
    assert by(5000, 100_000) == []  # a share that nobody feels
    assert by(500, 0) == []  # probes


def test_kube_proxy_is_named_where_bridged_packets_see_netfilter() -> None:
    read = window({"bridge_netfilter{br0}": 1.0, "rx_packets{br0/veth1}": 5000.0})
    [one] = explain(Evidence(virtual_switch=read, pods=NAT))
    assert one.rule == "bridge-netfilter"
    assert one.evidence == ("kube-proxy's and network policies' rules are among those of a node",)


def test_only_pollers_mind_sharing() -> None:
    assert rules_of(exclusive=False, polls=True, qos="Burstable") == ["pod-shares-cpus"]
    assert rules_of(exclusive=False, qos="Burstable") == []


def test_a_limit_that_stops_is_found() -> None:
    assert rules_of(cpu_limit=0.5, periods=100, throttled=40) == ["pod-throttled"]
    assert rules_of(cpu_limit=0.5, periods=100, throttled=4) == []
    assert rules_of(cpu_limit=0.5) == []


PRIVILEGED = "ground.kubernetes.privileged"
POINTS = tuple(
    PointRow(point=f"p-{n}", group="p", values={PRIVILEGED: privileged, "workload.frame": frame})
    for n, (frame, privileged) in enumerate([(64, False), (64, True), (512, True)], 1)
)


def result(point: str, repetition: int, pps: float, goal: str, verdict: Verdict) -> Result:
    fields: dict[str, Any] = {
        "chain": point, "direction": "forward", "repetition": repetition, "execution": "pods rtc",
        "workload": "64B", "goal": goal, "load_pps": pps, "throughput_pps": pps,
        "throughput_gbps_l1": 1, "throughput_gbps_l2": 1, "offered_pps": pps, "sent_pps": pps,
        "received_pps": pps, "loss_ratio": 0, "audit": Audit(verdict=verdict),
    }  # fmt: skip
    return Result(**fields)


def priced(
    ratios: Sequence[float], verdict: Verdict = "ok", goal: str = "ndr", *, in_turn: bool = True,
    **place: Any,
) -> list[Diagnosis]:  # fmt: skip
    """A machine that is half as fast in each further repetition is so for both."""
    results = [
        one
        for n, ratio in enumerate(ratios, 1)
        for one in (
            result("p-1", n, ratio * 1e6 / n, goal, "ok"),
            result("p-2", n, 1e6 / n, goal, verdict),
            result("p-3", n, 9e6, goal, "ok"),  # another frame: no partner of theirs
        )
    ]
    if not in_turn:
        results.sort(key=lambda one: one.chain)
    results = [one.model_copy(update={"trial": n}) for n, one in enumerate(results, 1)]
    pod = PodPlace(node="n", qos="Guaranteed", cpus=(1,), exclusive=True, **place)
    every = Evidence(results=results, points=POINTS, pods={"pods rtc, p-1": {"vnf1": pod}})
    return [one for one in explain(every) if one.rule == "pod-rights"]


def test_the_price_of_a_pod_without_rights_is_that_of_pairs() -> None:
    """Logarithms -0.13, -0.12, -0.11: s = 0.01, t(2) = 4.303, half = 4.303 * 0.01 / sqrt 3."""
    [one] = priced([math.exp(x) for x in (-0.13, -0.12, -0.11)])
    half = 4.303 * 0.01 / math.sqrt(3)
    assert one.share == pytest.approx(1 - math.exp(-0.12))
    price = percent(1 - math.exp(-0.12), 2)
    assert price.startswith("11")
    assert one.text == f"pods without rights (p-1) carry {price} less than privileged ones (p-2)"
    low, high = math.exp(-0.12 - half), math.exp(-0.12 + half)
    assert one.evidence == (
        f"0.887 times as much (95 %: {low:.3f} to {high:.3f}), 3 pairs of repetitions",
    )
    assert not one.remedy  # nothing that was read says why


def test_a_price_that_pairs_do_not_show_is_none() -> None:
    [one] = priced([0.9, 1.1, 1.0])
    assert one.share == 0 and "no less than privileged ones" in one.text
    assert "(95 %: 0.7" in one.evidence[0]
    assert priced([0.88, 0.89, 0.9], in_turn=False) == []
    assert priced([0.9]) == []  # one pair says nothing of how much they differ
    assert priced([0.88, 0.89, 0.9], "generator-bound") == []
    assert priced([0.88, 0.89, 0.9], goal="fixed") == []  # a load that was given was carried


def test_pairs_of_which_the_audit_doubts_a_rate_are_told() -> None:
    """They may be the machine's: an lcore that others have for a part of the time."""
    [doubted] = priced([0.88, 0.89, 0.9], "suspect")
    assert doubted.evidence[1:] == ("the audit doubts a rate in 3 of 3 pairs",)
    [trusted] = priced([0.88, 0.89, 0.9])
    assert trusted.evidence == doubted.evidence[:1]


def test_loads_that_wait_for_stores_are_named() -> None:
    """Words of the kernel's fs/proc/array.c; what all threads of a node have is no pod's."""
    [one] = priced([0.88, 0.89, 0.9], store_bypass="thread force mitigated")
    assert "(Speculation_Store_Bypass: thread force mitigated)" in one.evidence[1]
    assert "spec_store_bypass_disable=prctl" in one.remedy
    for words in ("vulnerable", "thread vulnerable", "globally mitigated", "not vulnerable"):
        [one] = priced([0.88, 0.89, 0.9], store_bypass=words)
        assert len(one.evidence) == 1 and not one.remedy
