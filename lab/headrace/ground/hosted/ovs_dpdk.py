# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with DPDK as the switch of a hosted chain: a vhost-user port for each interface.

The owner of a port is its server (virtio-user of an engine, or QEMU), Open vSwitch the client: who
was killed and comes back is found again by the switch, which tries once a second.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import replace
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.hosted.parts import RUN
from headrace.ground.hosted.ports import OnSwitch, SwitchPort
from headrace.ground.hosted.switch import Switch, SwitchCounts
from headrace.host.ledger import Ledger
from headrace.host.openvswitch import OpenVswitch, dpdk_lacking, dpdk_program, dpdk_settings
from headrace.host.programs import VSWITCHD
from headrace.host.state import dpdk_prefix

_UP_S = 60.0
_LOOK_S = 0.1
_SLEEP_US = 50
# Buffers: as many as a port's queues hold and 16384, or 262144 for all ports together
# (Open vSwitch, topics/dpdk/memory). On ordinary memory none crosses a page, so that each has one.
_OWN_MB, _ALL_MB, _EAL_MB = 96, 1088, 64
_OWN_MOST = 8
_PORT = re.compile(r"^\s+port \d+: (\S+)")
_COUNTED = re.compile(r"^\s+(RX|TX) packets:(\d+) errors:(\d+|\?) dropped:(\d+|\?)")


class OvsDpdk(Switch):
    def __init__(self, on: OnSwitch, ledger: Ledger, run: Path, huge: bool) -> None:
        """`huge`: its memory is hugepages, as the tester's."""
        self._names = {f"p{number}": one for number, one in enumerate(on.ports, 1)}
        tag = f"hr{secrets.token_hex(2)}"
        program = dpdk_program()
        if program is None:
            raise HeadraceError(f"network: ovs-dpdk: {dpdk_lacking()}")
        given = settings(on, f"{dpdk_prefix(run)}-ovs", huge)
        self._switch = OpenVswitch(tag, ledger, run / "ovs", program, given)
        self.directory = self._switch.directory
        self.pids = {VSWITCHD: self._switch.pid}
        self._join(on, run)

    def _join(self, on: OnSwitch, run: Path) -> None:
        """All in one transaction: each waits for the switch."""
        words: list[str] = []
        for number, (name, one) in enumerate(self._names.items(), 1):
            socket = one.socket.replace(RUN, str(run))
            words += ["--", "add-port", self._switch.bridge, name, "--", "set", "interface", name]
            words += ["type=dpdkvhostuserclient", f"options:vhost-server-path={socket}"]
            words += [f"ofport_request={number}", *policing(one)]
        self._switch.vsctl(*words)
        self._switch.add_flows(flows(on.ports))

    def wait_up(self) -> None:
        """A vhost device is there a moment before the switch polls its queue."""
        deadline = time.monotonic() + _UP_S
        while True:
            polled = self._switch.polled()
            down = [one for name, one in self._names.items() if name not in polled]
            if not down:
                return
            if time.monotonic() > deadline:
                who = ", ".join(f"{one.owner or 'tester'}:{one.name}" for one in down)
                why = self._switch.last_error()
                raise HeadraceError(f"ovs-dpdk: ports of {who} not up after {_UP_S:g} s: {why}")
            time.sleep(_LOOK_S)

    def counts(self) -> dict[tuple[str, str], SwitchCounts]:
        shown = counted(self._switch.ask("dpctl/show", "--statistics"))
        return {
            (one.owner, one.name): as_capped(shown[name]) if one.cap else shown[name]
            for name, one in self._names.items()
            if name in shown
        }


def memory_mb(ports: int) -> int:
    return _EAL_MB + (_OWN_MB * ports if ports <= _OWN_MOST else _ALL_MB)


def settings(on: OnSwitch, prefix: str, huge: bool) -> list[str]:
    """One poller, on the lcore that switches otherwise."""
    each = len(on.ports) <= _OWN_MOST
    # Where the tester polls on that lcore, too, one that never slept would have it wait for the
    # end of a time slice, and the tester for that of the other's.
    sleep_us = _SLEEP_US if on.shared else 0
    return dpdk_settings(memory_mb(len(on.ports)), prefix, (on.lcore,), each, sleep_us, huge)


def policing(one: SwitchPort) -> list[str]:
    """Keeps what comes in by a port to its owner's licence."""
    if one.cap is None:
        return []
    rate, burst = one.cap.policing_kbps, one.cap.policing_burst_kb
    return [f"ingress_policing_rate={rate}", f"ingress_policing_burst={burst}"]


def as_capped(counts: SwitchCounts) -> SwitchCounts:
    """Only a vhost-user port's policer drops what comes in, and does before that is counted as
    received (lib/netdev-dpdk.c, netdev_dpdk_vhost_rxq_recv)."""
    came = counts.rx_packets + counts.rx_dropped
    return replace(counts, rx_packets=came, rx_dropped=0, rx_capped=counts.rx_dropped)


def flows(ports: tuple[SwitchPort, ...]) -> list[str]:
    """Lead to whoever has the address; what is for nobody is dropped (fail_mode=secure)."""
    return [f"dl_dst={one.mac},actions=output:{number}" for number, one in enumerate(ports, 1)]


def counted(shown: str) -> dict[str, SwitchCounts]:
    """`ovs-appctl dpctl/show --statistics`, by port."""
    queues: dict[str, dict[str, tuple[int, int]]] = {}
    name = ""
    for line in shown.splitlines():
        if port := _PORT.match(line):
            name = port[1]
        elif name and (counts := _COUNTED.match(line)):
            lost = int(counts[4]) if counts[4].isdigit() else 0
            queues.setdefault(name, {})[counts[1]] = int(counts[2]), lost
    return {
        port: SwitchCounts(both["RX"][0], both["TX"][0], both["RX"][1], both["TX"][1])
        for port, both in queues.items()
        if len(both) == 2
    }
