# SPDX-License-Identifier: Apache-2.0
"""The tester's engine and the chain's, seen as one engine: what is read of them is one reading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.engine.control import ControlLost
from headrace.engine.counts import EngineCounts, EngineInfo
from headrace.engine.engine import SHARE_IDLE, SHARE_MEASURING, set_share
from headrace.engine.plan_document import Plan
from headrace.engine.running import RunningEngine
from headrace.errors import HeadraceError
from headrace.ground.wired.devices import with_devices
from headrace.ground.wired.external import Commands, RunningDevice
from headrace.ground.wired.here import WireEnd
from headrace.ground.wired.wiring import CHAIN, hop_name, wires
from headrace.host.scheduling import Snapshot, Thread, snapshot
from headrace.spec.testbed import Device, Testbed

TESTER = "tester"
_TID_BITS = 32  # more than a thread's number has
BOUNDS = ("since", "until")  # of a request for slices, by the clock of who is asked
_CLOCKS_DIFFER = 1e-3  # the share from which on cycles of two servers are not the same
# Where no CPUID leaf tells a TSC's rate DPDK measures it, and rounds to this (get_tsc_freq): of one
# clock two engines may make neighbouring steps.
_ROUNDED_HZ = 10_000_000
_UP_S = 30.0
_LOOK_S = 0.05


class WiredEngines(RunningEngine):
    """The tester is first: it listens where ports are sockets. Leaving it ends the tester, then the
    chain: of two that share memory, the one that listens does not outlive the other."""

    def __init__(
        self,
        ends: Mapping[str, WireEnd],
        plan: Plan,
        chain_plans: Mapping[str, Plan],
        bed: Testbed,
        devices: Mapping[str, Device],
        commands: Commands | None = None,
    ) -> None:
        """`ends`: the machines of TESTER and of each of the chain's engines, which may be one; that
        of an external device's commands is CHAIN's.
        `commands`: of the external device, where its spec does not have all of them."""
        super().__init__()
        self._bed, self._ends = bed, ends
        self._devices = {TESTER: {name: devices[name] for name in bed.tester}} | {
            hop_name(i): {name: devices[name] for name in ports}
            for i, (_, ports) in enumerate(bed.hops)
        }
        self._tester: RunningEngine | None = None
        self.chain: dict[str, RunningEngine] = {}
        self.external: RunningDevice | None = None
        # What the clock of each on another machine is ahead of the tester's.
        self._apart_tsc: dict[str, int] = {}
        try:
            for who, own in self._devices.items():
                ends[who].ready(own, bed.tester if who == TESTER else ())
            self._tester = ends[TESTER].start(plan, "")
            for name, one in chain_plans.items():
                self.chain[name] = ends[name].start(one, name)
            if bed.external is not None and (commands or bed.external.commanded):
                end = ends.get(CHAIN, ends[TESTER])
                self.external = end.external(commands or Commands(bed.external))
                self.external.configure()
            self._check_clocks()
            self._wait_up()
        except BaseException:
            self.close()
            raise

    def _check_clocks(self) -> None:
        """Cycles of all stand side by side."""
        for name in self._elsewhere():
            ours, theirs = self.tester.info().tsc_hz, self.chain[name].info().tsc_hz
            if clocks_differ(ours, theirs):
                raise HeadraceError(
                    f"servers: the TSC of {name}'s has {theirs / 1e6:.1f} MHz, the tester's "
                    f"{ours / 1e6:.1f}; allowed: servers whose TSCs have the same rate"
                )

    def _elsewhere(self) -> list[str]:
        """The chain's engines that are not on the tester's machine."""
        return [name for name in self.chain if self._ends[name] is not self._ends[TESTER]]

    @property
    def tester(self) -> RunningEngine:
        assert self._tester is not None
        return self._tester

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
    def pid(self) -> int | None:
        return self.tester.pid

    @property
    def pids(self) -> dict[str, int]:
        pids = {name: one.pid for name, one in self.chain.items()}
        if self.external is not None:
            pids = {CHAIN: self.external.pid}
        return {name: pid for name, pid in pids.items() if pid is not None}

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """All alike, as each is the others' bottleneck otherwise."""
        with contextlib.ExitStack() as every:
            for one in self.chain.values():
                every.enter_context(one.measuring())
            if self.external is not None and (pid := self.external.pid) is not None:
                set_share(pid, SHARE_MEASURING)
                every.callback(set_share, pid, SHARE_IDLE)
            every.enter_context(self.tester.measuring())
            self.shielded = self.tester.shielded
            yield

    def scheduled(self) -> Snapshot:
        return self.tester.scheduled()

    def scheduled_beside(self) -> Snapshot | None:
        if not self.chain:
            return snapshot(*self.pids.values()) if self.pids else None
        threads: dict[int, Thread] = {}
        stolen: dict[int, int] = {}
        for first, seen in enumerate(one.scheduled() for one in self.chain.values()):
            threads |= {(first << _TID_BITS) + tid: one for tid, one in seen.threads.items()}
            stolen |= seen.stolen_ns
        return Snapshot(threads, stolen)

    def lost(self, why: ControlLost) -> HeadraceError:
        return why  # each of the two has its own

    def info(self) -> EngineInfo:
        return self.tester.info()

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        """Slices are of all, each by its own machine's clock."""
        reply = self.tester.request(cmd, **arguments)
        for name, one in self.chain.items() if cmd == "slices" else ():
            ahead = self._apart_tsc.get(name, 0)
            there = {at: arguments[at] + ahead for at in BOUNDS if at in arguments}
            own = one.request(cmd, **(arguments | there))
            reply["segments"] = {**reply["segments"], **own["segments"]}
        return reply

    def exposed(self) -> Mapping[str, str]:
        own = {name: one.exposed()[""] for name, one in self.chain.items()}
        return {**self.tester.exposed(), **own}

    def read(self) -> EngineCounts:
        with self.turn:
            read = self.tester.read()
            elsewhere, tsc = self._elsewhere(), read.tsc
            for name, one in self.chain.items():
                chain = one.read()
                if name in elsewhere:
                    self._apart_tsc[name] = chain.tsc - tsc
                read = beside(read, chain)
            if self.external is not None:
                self.external.check_alive()
                read = read.model_copy(update={"dut": self.external.counters()})
        for who, devices in self._devices.items():
            if any(to.interface for to in devices.values()):
                read = with_devices(read, devices, self._ends[who].interfaces())
        return read.model_copy(update={"missing": missing(read, self._bed)})

    def close(self) -> None:
        for one in (self._tester, *self.chain.values(), self.external):
            if one is not None:
                one.close()
        for end in self._ends.values():
            end.undo()


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


def clocks_differ(ours_hz: int, theirs_hz: int) -> bool:
    """Whether cycles of two servers cannot stand side by side."""
    return abs(theirs_hz - ours_hz) > max(_CLOCKS_DIFFER * ours_hz, _ROUNDED_HZ)


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
