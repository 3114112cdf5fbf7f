# SPDX-License-Identifier: Apache-2.0
"""The tester's engine and the chain's, seen as one engine: what is read of them is one reading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.engine.counts import EngineCounts
from headrace.engine.engine import SHARE_IDLE, SHARE_MEASURING, Engine, EngineRefused, set_share
from headrace.engine.plan_document import Plan
from headrace.errors import HeadraceError
from headrace.ground.wired.devices import make_ready, with_devices, without_sockets
from headrace.ground.wired.external import Commands, ExternalDevice
from headrace.ground.wired.wiring import wires
from headrace.host.ledger import Ledger
from headrace.host.state import RunState
from headrace.spec.testbed import Device, Testbed

CHAIN = "dut"
_UP_S = 30.0
_LOOK_S = 0.05


class WiredEngines(Engine):
    """The tester is first: it listens where ports are sockets. Leaving it ends the tester, then the
    chain: of two that share memory, the one that listens does not outlive the other."""

    def __init__(
        self,
        binary: Path,
        plan: Plan,
        chain_plan: Plan | None,
        bed: Testbed,
        devices: Mapping[str, Device],
        state: RunState,
        commands: Commands | None = None,
    ) -> None:
        """`commands`: of the external device, where its spec does not have all of them."""
        self._bed, self._devices = bed, devices
        self._ledger = Ledger(state.path)
        self.chain: Engine | None = None
        self.external: ExternalDevice | None = None
        try:
            without_sockets({name: devices[name] for name in bed.tester})
            make_ready(devices, self._ledger)
            super().__init__(binary, plan, state)
        except BaseException:
            self._ledger.undo()
            raise
        try:
            if chain_plan is not None:
                self.chain = _second(binary, chain_plan, state)
            if bed.external is not None:
                commands = commands or Commands(bed.external)
                self.external = ExternalDevice(commands, state.path, self._ledger)
                self.external.configure()
            self._wait_up()
        except BaseException:
            self.close()
            raise

    def _wait_up(self) -> None:
        seconds = _UP_S if self._bed.external is None else self._bed.external.up
        deadline = time.monotonic() + seconds
        while True:
            if self.external is not None:
                self.external.check_alive()
            read = self.read()
            down = [name for name in self._bed.ports if not read.port(name).up]
            if not down:
                return
            if time.monotonic() > deadline:
                name = down[0]
                raise HeadraceError(
                    f"testbed.ports.{name}: the link of {self._bed.ports[name].device} is not up "
                    f"after {seconds:g} s"
                )
            time.sleep(_LOOK_S)

    @property
    def pids(self) -> dict[str, int]:
        if self.chain is not None:
            return {CHAIN: self.chain.pid}
        if self.external is not None and self.external.pid is not None:
            return {CHAIN: self.external.pid}
        return {}

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Both alike, as each is the other's bottleneck otherwise."""
        for pid in self.pids.values():
            set_share(pid, SHARE_MEASURING)
        try:
            with super().measuring():
                yield
        finally:
            for pid in self.pids.values():
                set_share(pid, SHARE_IDLE)

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        """Slices are of both: their clock is the same."""
        reply = super().request(cmd, **arguments)
        if cmd == "slices" and self.chain is not None:
            own = self.chain.request(cmd, **arguments)
            reply["segments"] = {**reply["segments"], **own["segments"]}
        return reply

    def exposed(self) -> Mapping[str, str]:
        own = {} if self.chain is None else {CHAIN: self.chain.exposed()[""]}
        return {**super().exposed(), **own}

    def read(self) -> EngineCounts:
        with self.turn:
            read = super().read()
            if self.chain is not None:
                read = beside(read, self.chain.read())
            if self.external is not None:
                self.external.check_alive()
                read = read.model_copy(update={"dut": self.external.counters()})
        read = with_devices(read, self._devices)
        return read.model_copy(update={"missing": missing(read, self._bed)})

    def close(self) -> None:
        super().close()
        if self.chain is not None:
            self.chain.close()
        if self.external is not None:
            self.external.close()
        self._ledger.undo()


def _second(binary: Path, plan: Plan, state: RunState) -> Engine:
    """DPDK numbers a packet socket's fanout group by process and interface, so that two engines
    may have one number, which the kernel refuses; another process has another."""
    try:
        return Engine(binary, plan, state, folder=CHAIN)
    except EngineRefused as error:
        if "PACKET_FANOUT" not in error.problem:
            raise
        return Engine(binary, plan, state, folder=CHAIN)


def beside(tester: EngineCounts, chain: EngineCounts) -> EngineCounts:
    """The segments, links and lcores of both. A lcore that both have is busy with both."""
    workers = dict(tester.workers)
    for cpu, one in chain.workers.items():
        there = workers.get(cpu)
        if there is not None:
            one = there.model_copy(
                update={
                    "ref_cycles": max(there.ref_cycles, one.ref_cycles),
                    "ops_cycles": there.ops_cycles + one.ops_cycles,
                    "segments": (*there.segments, *one.segments),
                    "sending": None,
                }
            )
        workers[cpu] = one
    return tester.model_copy(
        update={
            "segments": {**tester.segments, **chain.segments},
            "links": {**tester.links, **chain.links},
            "workers": workers,
            "mbufs_in_use": tester.mbufs_in_use + chain.mbufs_in_use,
        }
    )


def missing(read: EngineCounts, bed: Testbed) -> dict[str, int]:
    """Packets that left one end of a wire and did not come to its other end; what an external
    device did not give back."""
    if bed.external is not None:
        ports = [read.port(name) for name in dict.fromkeys(bed.tester)]
        kept = sum(port.tx_packets for port in ports) - sum(port.rx_packets for port in ports)
        return {f"{CHAIN}/not-returned": kept}
    lost = {}
    for near, far in wires(bed).items():
        for one, other in ((near, far), (far, near)):
            sent, came = read.port(one).tx_packets, read.port(other).rx_packets
            lost[f"{other}/not-received"] = sent - came
    return lost
