# SPDX-License-Identifier: Apache-2.0
"""A chain as DPDK's testpmd forwards it, between the very ports that headrace would have."""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.engine.ways import Direction
from headrace.ground.contract import Site
from headrace.ground.engines.adapter import Declared, Work, macs, program
from headrace.ground.engines.testpmd_console import TestpmdConsole
from headrace.ground.wired.devices import make_ready, without_sockets
from headrace.ground.wired.external import LOG, Commands
from headrace.ground.wired.wiring import devargs
from headrace.host.ledger import Ledger
from headrace.host.moved import set_address
from headrace.host.state import dpdk_in
from headrace.spec.testbed import Device, ExternalDut

_KINDS = ("af_xdp", "af_packet", "memif", "vhost", "virtio_user")
_OWN_MAC = ("memif", "virtio_user")  # those whose devargs say their MAC address
_MBUFS = 16384
_BESIDE = (
    "testpmd counts packets per port only, checks no lengths, and has no links but its ports.",
    "Its console is a thread on the chain's first lcore, which sleeps while a trial goes on.",
)


@dataclass(frozen=True)
class Testpmd:
    """`macs`: how frames leave by each port, in the ports' order; None: as they came (mode io)."""

    work: Work
    ports: tuple[tuple[str, Device], ...]
    macs: tuple[dict[str, str], ...] | None

    @property
    def beside(self) -> tuple[str, ...]:
        return (f"Mode {self._mode}.", *_BESIDE)

    @property
    def declared(self) -> tuple[Declared, ...]:
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        return (program("dpdk-testpmd", "dpdk-dev"),)

    @property
    def _mode(self) -> str:
        return "io" if self.macs is None else "mac"

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        folder = site.state.path
        fifo, orders = folder / "testpmd.in", folder / "testpmd.orders"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        orders.write_text("set record-core-cycles on\nstart\n")
        devices = dict(self.ports)
        without_sockets(devices)
        make_ready(devices, ledger)
        for (_, to), mac in zip(self.ports, self.macs or (), strict=False):
            if to.interface is not None:
                set_address(to.interface, mac["src_mac"], ledger)
        arguments = (*self._eal(site), "--", *self._modes(), f"--cmdline-file={orders}")
        # Opened for writing, too, so that it does not end when nobody writes.
        reading = ("sh", "-c", 'exec "$@" <>"$0"', str(fifo))
        own = f"RUNTIME_DIRECTORY={dpdk_in(folder)['RUNTIME_DIRECTORY']}"
        return Commands(
            ExternalDut(start=(*reading, "env", own, "stdbuf", "-oL", *self.programs, *arguments)),
            place="deployment.engine: testpmd",
            console=TestpmdConsole(fifo, folder / LOG, tuple(name for name, _ in self.ports)),
        )

    def _eal(self, site: Site) -> tuple[str, ...]:
        """The lcores of the chain, and another on the first of them that reads the console."""
        cpus = self.work.cpus
        lcores = ",".join(f"{i}@{cpu}" for i, cpu in enumerate((cpus[0], *cpus)))
        memory = ("--in-memory",) if site.engine.hugepages else ("--no-huge", "--no-shconf")
        megabytes = self.work.experiment.study.deployment.memory_mb
        return (
            f"--lcores={lcores}", "--main-lcore=0", "--no-pci", "--no-telemetry",
            f"--file-prefix={site.state.path.name}-testpmd", "-m", str(megabytes), *memory,
            "--single-file-segments", "--iova-mode=va",
            *(f"--vdev={one}" for one in self._devices()),
        )  # fmt: skip

    def _devices(self) -> list[str]:
        bed = self.work.experiment.study.testbed
        assert bed is not None
        devices = []
        for i, (name, to) in enumerate(self.ports):
            text = devargs(to, i, bed.ports[name], len(self.work.cpus), listens=False)
            if self.macs is not None and to.kind in _OWN_MAC:
                text += f",mac={self.macs[i]['src_mac']}"
            devices.append(text)
        return devices

    def _modes(self) -> tuple[str, ...]:
        """Has as long queues as the longest of the ports'."""
        study, queues = self.work.experiment.study, len(self.work.cpus)
        assert study.testbed is not None
        given = [study.testbed.ports[name] for name, _ in self.ports]
        peers = (f"--eth-peer={i},{mac['dst_mac']}" for i, mac in enumerate(self.macs or ()))
        return (
            "-i", f"--forward-mode={self._mode}", *peers, f"--nb-cores={queues}",
            f"--rxq={queues}", f"--txq={queues}", f"--burst={study.deployment.burst}",
            f"--rxd={max(one.rx_descriptors for one in given)}",
            f"--txd={max(one.tx_descriptors for one in given)}",
            f"--total-num-mbufs={_MBUFS * queues}",
            f"--port-topology={'paired' if len(self.ports) == 2 else 'loop'}",
        )  # fmt: skip


def testpmd(work: Work) -> Testpmd:
    """BadInput where a function or parameter cannot be expressed."""
    work.check_functions(("l2fwd", "null"))
    work.check_ports(_KINDS, "is given virtual devices")
    work.check_no_mtu("testpmd")
    bed = work.experiment.study.testbed
    assert bed is not None
    resolved = {name: bed.ports[name].to for name in dict.fromkeys(bed.chain)}
    ports = tuple(resolved.items())
    forwarders = [node for node in work.experiment.nodes if node.nf == "l2fwd"]
    if not forwarders:
        return Testpmd(work, ports, None)
    for name, to in ports:
        if to.kind == "vhost":
            at = ("testbed", "ports", name, "device")
            raise work.doc.error(
                at, "testpmd: a vhost port has a MAC address of its own, which l2fwd's frames "
                "would leave with; allowed: virtio_user here, and vhost at the tester",
            )  # fmt: skip
    last = forwarders[-1]
    ways: tuple[Direction, ...] = ("reverse", "forward") if len(ports) == 2 else ("forward",)
    return Testpmd(work, ports, tuple(macs(last, way) for way in ways))
