# SPDX-License-Identifier: Apache-2.0
"""SR-IOV between containers: virtual functions moved into them, joined by the NIC's own switch.

Each LAN is a VLAN that the NIC puts on and takes off by itself, so the containers see none of it.
"""

from __future__ import annotations

from headrace.errors import BadInput
from headrace.ground.appliances.addressing import NodeInterface
from headrace.ground.appliances.fabric import Fabric, FabricPort
from headrace.host.iproute2 import ip_each
from headrace.host.ledger import Ledger
from headrace.host.sriov import Functions, Pf

_VLAN_BASE = 3000


class Sriov(Fabric):
    """A virtual function for each interface of the layout."""

    def __init__(self, tag: str, ledger: Ledger, pf: Pf, needed: int) -> None:
        super().__init__(tag, ledger)
        self.functions = Functions(pf, needed, ledger)

    def add_lan(self, lan: int) -> None:
        """A LAN is a VLAN id."""

    def attach(self, namespace: str, interface: NodeInterface) -> FabricPort:
        vlan = _VLAN_BASE + interface.lan
        ip_each(self.functions.moving(namespace, interface.device, interface.mac, vlan))
        return FabricPort(interface.lan, "", interface.mac, self._next())

    def mirror(self, ports: list[FabricPort], namespace: str, name: str) -> None:
        raise AssertionError("refused before: the NIC gives no copies")


def no_mirror(network: str) -> BadInput:
    return BadInput(
        f"deployment.network: got {network!r} with a leaf VNF; it has no point where a "
        "copy of the traffic could be taken; allowed with leaf VNFs: bridge, ovs"
    )
