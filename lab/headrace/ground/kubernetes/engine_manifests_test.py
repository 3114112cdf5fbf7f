# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from headrace.engine.plan_document import Plan, PlanEngine
from headrace.ground.kubernetes.cut import PlanCut, Wire
from headrace.ground.kubernetes.engine_manifests import EnginePods, engine_manifests
from headrace.spec.kubernetes import PodLink

HOW = EnginePods(
    namespace="headrace-t", image="i", nodes={"tester": "node1", "vnf1": "node1"},
    cpus={"tester": 2}, memory_mb=512, hugepages=False, privileged=False,
)  # fmt: skip


def pod(how: EnginePods, name: str, link: PodLink = "memif") -> Any:
    plan = Plan(engine=PlanEngine(mbuf_data_bytes=640), links={}, nfs={}, segments=())
    wires = (Wire("wire", "tester", "vnf1", 0, 10, link),)
    every = engine_manifests(PlanCut({"tester": plan, "vnf1": plan}, wires), how)
    [body] = [one.body for one in every if (one.kind, one.name) == ("Pod", name)]
    return body["spec"]


def test_a_pod_has_no_rights_unless_all_are_asked_for() -> None:
    [own] = pod(HOW, "vnf1")["containers"]
    confined = own["securityContext"]
    assert confined["capabilities"] == {"drop": ["ALL"], "add": []}
    assert not confined["allowPrivilegeEscalation"] and "privileged" not in confined
    [own] = pod(replace(HOW, privileged=True), "vnf1")["containers"]
    assert own["securityContext"]["privileged"]


def test_who_only_calls_cannot_fill_a_folder_of_the_nodes() -> None:
    """The tester has to make its socket there. Of a folder that it may not write to DPDK's memif
    says "Invalid socket directory", also where it calls."""

    def writable(name: str, link: PodLink = "vhost-user") -> bool:
        [own] = pod(HOW, name, link)["containers"]
        [folder] = [one for one in own["volumeMounts"] if one["name"] == "links"]
        return not folder["readOnly"]

    assert (writable("tester"), writable("vnf1")) == (True, False)
    assert writable("vnf1", "memif")


def test_memory_is_the_engines_and_a_memifs_rings() -> None:
    """Two rings of 1,024 buffers of 2 KiB; vhost-user moves packets in the engines' own."""

    def limit(link: PodLink) -> int:
        [own] = pod(HOW, "vnf1", link)["containers"]
        return int(own["resources"]["limits"]["memory"].removesuffix("Mi"))

    assert limit("memif") - limit("vhost-user") == 4
    assert limit("vhost-user") > HOW.memory_mb


def test_hugepages_are_asked_for_and_mounted() -> None:
    spec = pod(replace(HOW, hugepages=True), "tester")
    [own] = spec["containers"]
    assert own["resources"]["requests"] == own["resources"]["limits"]  # guaranteed
    assert own["resources"]["limits"]["hugepages-2Mi"] == "512Mi"
    assert own["resources"]["limits"]["cpu"] == "2"
    assert {"name": "hugepages", "emptyDir": {"medium": "HugePages"}} in spec["volumes"]
    # Without it no DPDK starts on them: the runtime's filter withholds set_mempolicy(2).
    assert own["securityContext"]["capabilities"]["add"] == ["SYS_NICE"]


def test_devices_of_a_node_are_given_to_a_tester_that_is_apart() -> None:
    """Packet sockets, their rings and its own network are all the rights that it has for them."""
    plan = Plan(engine=PlanEngine(mbuf_data_bytes=640), links={}, nfs={}, segments=())
    wires = (Wire("wire", "tester", "vnf1", 0, 10, "memif", "in"),)
    devices = {"tester/left": "eth2", "vnf1/in": "eth3"}
    nodes = {"tester": "node1", "vnf1": "node2"}
    every = engine_manifests(
        PlanCut({"tester": plan, "vnf1": plan}, wires), replace(HOW, devices=devices, nodes=nodes)
    )
    objects: dict[str, Any] = {one.name: one.body for one in every}
    for pod, device, node in (("tester", "left", "node1"), ("vnf1", "in", "node2")):
        body = objects[pod]
        assert body["spec"]["nodeSelector"] == {"kubernetes.io/hostname": node}
        [given] = json.loads(body["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"])
        assert given == {"name": f"{pod}-{device}", "interface": device}
        plugins = json.loads(objects[f"{pod}-{device}"]["spec"]["config"])["plugins"]
        assert plugins[0] == {"type": "host-device", "device": devices[f"{pod}/{device}"]}
        assert plugins[1]["promisc"]
        [own] = body["spec"]["containers"]
        assert own["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "NET_ADMIN", "NET_RAW"]
    names = [one.name for one in every]
    assert names.index("vnf1-in") < names.index("tester")  # a pod's networks are there before it
