# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster that a study runs on instead of this machine."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.spec.appliance import Device
from headrace.spec.base import Count, Spec, listed

NODE_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")  # RFC 1123
PodLink = Literal["memif", "vhost-user"]
NodeName = Annotated[str, Field(pattern=NODE_NAME.pattern)]


class Kubernetes(Spec):
    """Each function is a pod, and so is what sends and receives.

    `context` is one of the kubeconfig's (KUBECONFIG), its current one unless given. `network` joins
    third-party VNFs by Multus: a bridge of each node, macvlan on the nodes' device `master`, the
    virtual functions that a device plugin calls `resource` (with `claim`, a device class: a driver
    of dynamic resource allocation does), or `devices` of the nodes that pods are given, by
    container and interface (`nat/up: eth2`); the study's own network unless given. Points go to
    `nodes` in turn, all that are ready unless given; `node_selector` leaves those out that lack one
    of its labels; `place` says where single pods go. `registry`
    stands before the names of images. `cpus`: of each engine's pod, exclusive where the kubelet's
    CPU manager is static; 0: none of its own. `pod_cpus`: of single pods (tester, vnf1, vnf2, ...).
    `link`: what joins engines' pods; `privileged`: whether these have all rights, so that what
    having none costs can be measured. `agent`: an image of headrace, by which the study's `collect`
    is read on the nodes; without one no layers are.
    """

    context: str | None = None
    network: Literal["bridge", "macvlan", "sriov", "host-device"] | None = None
    master: Device | None = None
    resource: str | None = None
    claim: str | None = None
    devices: dict[str, Device] = Field(default_factory=dict)
    nodes: Annotated[tuple[NodeName, ...], BeforeValidator(listed)] = ()
    node_selector: dict[str, str] = Field(default_factory=dict)
    place: dict[str, NodeName] = Field(default_factory=dict)
    registry: str | None = None
    agent: str | None = None
    cpus: Annotated[Count, Field(ge=0, le=64)] = 1
    pod_cpus: dict[str, Annotated[Count, Field(ge=0, le=64)]] = Field(default_factory=dict)
    link: PodLink = "memif"
    privileged: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Kubernetes:
        of = (("master", "macvlan"), ("resource", "sriov"), ("devices", "host-device"))
        for key, network in of:
            if bool(getattr(self, key)) != (self.network == network):
                raise ValueError(f"`{key}` and `network: {network}` go together")
        if self.claim is not None and self.network != "sriov":
            raise ValueError("`claim` goes with `network: sriov`")
        if self.network == "bridge" and len(set(self.place.values())) > 1:
            raise ValueError("place: several nodes; allowed with network bridge: one, whose it is")
        return self
