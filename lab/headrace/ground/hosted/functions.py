# SPDX-License-Identifier: Apache-2.0
"""The virtual functions of one deployed chain, and the namespaces that its engines run in."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from functools import partial

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import DeviceCounts, PortCounts
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.ground.hosted.sriov import Function, OnNic
from headrace.host import netlink
from headrace.host.ledger import Ledger
from headrace.host.plumbing import counts, make_namespace, no_offloads, set_up, within
from headrace.host.sriov import Functions

TESTER = "tester"
_CARRIER_S = 60.0  # a physical function that was down negotiates its link first


class NicFunctions:
    """Made when the chain is deployed; the ledger undoes it."""

    def __init__(self, nic: OnNic, ledger: Ledger) -> None:
        self.nic = nic
        self._tag = f"hr{secrets.token_hex(2)}"
        self._ledger = ledger
        self.words: dict[str, str] = {}  # what plans say for addresses -> addresses
        try:
            self._make()
        except BaseException:
            ledger.undo()
            raise

    def _make(self) -> None:
        wanted = Counter(one.pf for one in self.nic.functions)
        functions_of = {pf: Functions(pf, needed, self._ledger) for pf, needed in wanted.items()}
        for owner in dict.fromkeys(one.owner for one in self._moved):
            make_namespace(self.namespace_of(owner), self._ledger)
        for one in self.nic.functions:
            functions = functions_of[one.pf]
            if self.nic.way(one.owner) == "vfio":
                self.words[one.pci] = functions.bind(one.mac)
                continue
            namespace = self.namespace_of(one.owner)
            functions.move(namespace, one.name, one.mac)
            within(namespace, partial(no_offloads, one.name))
            set_up(namespace, one.name)
        self._wait_carrier()
        for one in self.nic.functions:  # a rate is a share of a link's, which is known by now
            if one.cap is not None:
                functions_of[one.pf].hold_to(one.mac, one.cap.max_tx_rate)

    @property
    def _moved(self) -> list[Function]:
        """Those with an interface of the kernel's, in a namespace."""
        return [one for one in self.nic.functions if self.nic.way(one.owner) != "vfio"]

    def given_to(self, owner: str, name: str) -> str:
        """The PCI address of a machine's function."""
        [one] = (one for one in self.nic.of(owner) if one.name == name)
        return self.words[one.pci]

    def namespace_of(self, owner: str) -> str:
        return f"{self._tag}-{owner or TESTER}"

    def _wait_carrier(self) -> None:
        deadline = time.monotonic() + _CARRIER_S
        for one in self._moved:
            namespace = self.namespace_of(one.owner)
            while not within(namespace, partial(_carrier, one.name)):
                if time.monotonic() > deadline:
                    raise HeadraceError(
                        f"{one.pf.name}: the link of the virtual function of "
                        f"{one.owner or TESTER} is not up after {_CARRIER_S:g} s"
                    )
                time.sleep(0.2)

    def enter(self, owner: str) -> list[str]:
        """What starts a command where its functions are."""
        if self.nic.way(owner) == "vfio":
            return []
        return ["ip", "netns", "exec", self.namespace_of(owner)]

    def fill_in(self, plan: Plan) -> Plan:
        for word, address in self.words.items():
            plan = plan.placed(word, address)
        return plan

    def with_counts(self, owner: str, read: EngineCounts) -> EngineCounts:
        """What the functions' own driver counted, beside what the engine did."""
        own: list[Function] = self.nic.of(owner)
        if self.nic.way(owner) == "vfio" or not own:
            return read
        seen, links = counts(self.namespace_of(owner)), dict(read.links)
        for one in own:
            if isinstance(link := links.get(one.name), PortCounts) and one.name in seen:
                count = seen[one.name]
                device = DeviceCounts(rx_packets=count.rx_packets, tx_packets=count.tx_packets)
                links[one.name] = link.model_copy(update={"device": device})
        return read.model_copy(update={"links": links})


def _carrier(name: str) -> bool:
    with netlink.IPRoute() as ip:
        links = ip.get_links(*ip.link_lookup(ifname=name))
        return any(link.get_attr("IFLA_CARRIER") for link in links)
