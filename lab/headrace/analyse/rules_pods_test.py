# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.collect.samples import Window
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
