# SPDX-License-Identifier: Apache-2.0
"""The virtual functions of one deployed chain, and the namespaces that its engines run in."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import DeviceCounts, PortCounts
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.ground.hosted.sriov import Function, OnNic
from headrace.host.iproute2 import ip_each
from headrace.host.ledger import Ledger
from headrace.host.plumbing import (
    KernelInterface,
    counts,
    interfaces_here,
    make_namespace,
    no_offloads,
    set_up,
    within,
)
from headrace.host.sriov import Command, Functions, Pf

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
        for namespace in self._moved:
            make_namespace(namespace, self._ledger)
        self._hand_out(functions_of)
        for namespace, own in self._moved.items():
            names = [one.name for one in own]
            within(namespace, partial(_no_offloads, names))
            set_up(namespace, *names)
        self._wait_carrier()
        for pf, functions in functions_of.items():  # a rate is a share of a link's, known by now
            capped = [(one.mac, one.cap) for one in self.nic.functions if one.pf == pf]
            if rates := {mac: cap.max_tx_rate for mac, cap in capped if cap is not None}:
                functions.hold_to(rates)

    def _hand_out(self, functions_of: Mapping[Pf, Functions]) -> None:
        commands: list[Command] = []
        for one in self.nic.functions:
            functions = functions_of[one.pf]
            if self.nic.way(one.owner) == "vfio":
                self.words[one.pci], command = functions.addressing(one.mac)
                commands.append(command)
            else:
                commands += functions.moving(self.namespace_of(one.owner), one.name, one.mac)
        ip_each(commands)
        for one in self.nic.functions:
            if one.pci in self.words:
                functions_of[one.pf].bind(self.words[one.pci])

    @property
    def _moved(self) -> dict[str, list[Function]]:
        """Those with an interface of the kernel's, by the namespace that it is in."""
        moved: dict[str, list[Function]] = {}
        for one in self.nic.functions:
            if self.nic.way(one.owner) != "vfio":
                moved.setdefault(self.namespace_of(one.owner), []).append(one)
        return moved

    def given_to(self, owner: str, name: str) -> str:
        """The PCI address of a machine's function."""
        [one] = (one for one in self.nic.of(owner) if one.name == name)
        return self.words[one.pci]

    def namespace_of(self, owner: str) -> str:
        return f"{self._tag}-{owner or TESTER}"

    def _wait_carrier(self) -> None:
        deadline = time.monotonic() + _CARRIER_S
        for namespace, own in self._moved.items():
            while down := _without_carrier(own, within(namespace, interfaces_here)):
                if time.monotonic() > deadline:
                    raise HeadraceError(
                        f"{down[0].pf.name}: the link of the virtual function of "
                        f"{down[0].owner or TESTER} is not up after {_CARRIER_S:g} s"
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


def _no_offloads(names: Sequence[str]) -> None:
    for name in names:
        no_offloads(name)


def _without_carrier(
    own: Sequence[Function], there: Mapping[str, KernelInterface]
) -> list[Function]:
    return [one for one in own if one.name not in there or not there[one.name].carrier]
