# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput
from headrace.ground.appliances.expanded import expand_study
from headrace.ground.kubernetes.manifests import Manifest, PodNetwork, manifests
from headrace.spec import document

BRIDGE = PodNetwork("bridge")


def objects(
    chain: str, network: PodNetwork = BRIDGE, vnfs: str = "{}", more: str = ""
) -> dict[tuple[str, str], Any]:
    """Bodies of the study's last point, by kind and name."""
    text = (
        "name: t\ndeployment: {hosting: {kind: appliances, servers: 1, vnfs: " + vnfs + "}}\n"
        f"chain: [{chain}]\n{more}"
    )
    doc = document.parse(text, Path("t.yaml"))
    point = expand_study(doc).points[-1]
    ones: tuple[Manifest, ...] = manifests("headrace-t", point.layout, point.supplies, network)
    return {(one.kind, one.name): one.body for one in ones}


def config(each: dict[tuple[str, str], Any], name: str) -> dict[str, Any]:
    plugins = json.loads(each["NetworkAttachmentDefinition", name]["spec"]["config"])["plugins"]
    joined: dict[str, Any] = plugins[0]
    return joined


def test_interfaces_have_the_addresses_and_routes_of_the_layout() -> None:
    """clients - LAN 0 - nat - LAN 1 - server, as docs/vnfs.md draws it."""
    each = objects("nat")
    assert [name for kind, name in each if kind == "Pod"] == ["client", "nat", "server1"]
    client, up, down = (config(each, name) for name in ("client-down", "nat-up", "nat-down"))
    assert client["ipam"] == {
        "type": "static",
        "addresses": [{"address": "198.18.0.10/24"}],
        "routes": [{"dst": "198.18.1.0/24", "gw": "198.18.0.20"}],
    }
    assert up["ipam"]["addresses"] == [{"address": "198.18.0.20/24"}]
    assert client["bridge"] == up["bridge"] != down["bridge"]
    assert len(down["bridge"]) < 16  # IFNAMSIZ


def test_limits_are_what_is_asked_for_where_cpus_are_given() -> None:
    each = objects("nat, l4-lb", vnfs="{nat: {cpus: 2, memory_mb: 256}}")
    own, free = (
        each["Pod", name]["spec"]["containers"][0]["resources"] for name in ("nat", "l4-lb")
    )
    assert own["requests"] == own["limits"] == {"cpu": "2", "memory": "256Mi"}
    assert "cpu" not in free["limits"]


def test_a_leaf_is_fed_by_the_pod_that_it_watches() -> None:
    """Each way by a LAN of its own: on one, the bridge would drop what it has learned."""
    each = objects("nat, ids")
    [mirror] = each["Pod", "nat"]["spec"]["initContainers"]
    for hook, device in (("ingress", "copies0i"), ("egress", "copies0o")):
        assert f"dev down {hook} " in mirror["command"][-1]
        assert f"egress mirror dev {device}" in mirror["command"][-1]
    key = "k8s.v1.cni.cncf.io/networks"
    networks = json.loads(each["Pod", "ids"]["metadata"]["annotations"][key])
    assert networks == [
        {"name": "ids-copies-in", "interface": "mirror"},
        {"name": "ids-copies-out", "interface": "mirror-out"},
    ]
    assert config(each, "ids-copies-in")["bridge"] != config(each, "ids-copies-out")["bridge"]
    [merge] = each["Pod", "ids"]["spec"]["initContainers"]
    assert "dev mirror-out ingress" in merge["command"][-1]
    assert "initContainers" not in each["Pod", "client"]["spec"]


def test_what_pods_cannot_have_is_refused() -> None:
    with pytest.raises(BadInput, match=r"VNF ids: its copies .* allowed with it: network bridge"):
        objects("nat, ids", PodNetwork("macvlan", master="eth1"))
    with pytest.raises(BadInput, match="client: equal shares to 2 instances"):
        objects("nat", vnfs="{nat: {instances: 2}}")
    with pytest.raises(BadInput, match=r"workload\.kind: packets are made by an engine"):
        objects("nat", more="workload: {kind: packets}\n")


def test_pods_have_no_right_that_their_vnf_does_not_need() -> None:
    each = objects("nat, l4-lb")
    rights = {
        name: body["spec"]["containers"][0]["securityContext"]["capabilities"]["add"]
        for (kind, name), body in each.items()
        if kind == "Pod" and name in ("nat", "l4-lb")
    }
    assert rights == {"nat": ["NET_ADMIN"], "l4-lb": []}


def test_a_device_that_a_pod_is_given_gets_the_layouts_addresses() -> None:
    """Its MAC address by `tuning`, as host-device knows none; its name there is the layout's."""
    names = ("client/down", "nat/up", "nat/down", "server1/up")
    devices = {name: f"d{number}" for number, name in enumerate(names)}
    each = objects("nat", PodNetwork("host-device", devices=devices))
    assert config(each, "nat-down")["device"] == "d2"
    definition = each["NetworkAttachmentDefinition", "nat-down"]["spec"]["config"]
    _, tuning = json.loads(definition)["plugins"]
    assert tuning["type"] == "tuning" and tuning["capabilities"] == {"mac": True}
    assert tuning["sysctl"]["net.ipv4.conf.all.arp_ignore"] == "1"  # two may be of one segment
    for wrong, words in (
        ({**devices, "nat/side": "d4"}, "nat/side is no interface of it"),
        ({"client/down": "d0"}, "nat/up has no device"),
    ):
        with pytest.raises(BadInput, match=words):
            objects("nat", PodNetwork("host-device", devices=wrong))


def test_virtual_functions_are_claimed_where_a_driver_gives_them() -> None:
    """One claim for all of a pod's interfaces; no plugin's resource is asked for beside it."""
    network = PodNetwork("sriov", resource="lab/vf", claim="vf.example.com")
    each = objects("nat", network)
    attachment = each["NetworkAttachmentDefinition", "nat-up"]
    assert attachment["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "lab/vf"}
    [request] = each["ResourceClaimTemplate", "nat"]["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "vf.example.com"
    assert request["exactly"]["count"] == 2
    [selector] = request["exactly"]["selectors"]
    of = 'device.attributes["k8s.cni.cncf.io"]'
    asked, wanted = selector["cel"]["expression"].rsplit(" && ", 1)
    assert wanted == f'{of}.resourceName == "lab/vf"'
    assert asked == f'"resourceName" in {of} && "deviceID" in {of}'  # else: no such key
    pod = each["Pod", "nat"]["spec"]
    [claim] = pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == "nat"
    resources = pod["containers"][0]["resources"]
    assert resources["claims"] == [{"name": claim["name"]}]
    assert "lab/vf" not in resources["requests"]
    plugin = objects("nat", PodNetwork("sriov", resource="lab/vf"))
    assert ("ResourceClaimTemplate", "nat") not in plugin
    assert plugin["Pod", "nat"]["spec"]["containers"][0]["resources"]["requests"]["lab/vf"] == "2"
