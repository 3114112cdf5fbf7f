# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.engine.plan_document import Plan, PlanEngine
from headrace.ground.kubernetes.cut import PlanCut, Wire
from headrace.ground.kubernetes.engine_manifests import EnginePods, engine_manifests
from headrace.spec.kubernetes import PodLink

HOW = EnginePods(
    namespace="headrace-t", image="i", node="node1", cpus={"tester": 2}, memory_mb=512,
    hugepages=False, privileged=False,
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
