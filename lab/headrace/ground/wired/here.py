# SPDX-License-Identifier: Apache-2.0
"""Where an end of the wires is: this machine, or another one (there.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from headrace.engine.engine import Engine, EngineRefused
from headrace.engine.plan_document import Plan
from headrace.engine.running import RunningEngine
from headrace.ground.wired.devices import make_ready, without_sockets
from headrace.ground.wired.external import Commands, ExternalDevice, RunningDevice
from headrace.host.ledger import Ledger
from headrace.host.plumbing import KernelInterface, interfaces_here
from headrace.host.state import RunState
from headrace.spec.testbed import Device


class WireEnd(Protocol):
    """What is done to the machine that has an end of the wires."""

    def ready(self, devices: Mapping[str, Device], listening: Collection[str]) -> None:
        """Its ports' devices, before an engine has them. `listening`: ports whose socket it makes;
        the others join one. `undo` undoes it."""

    def start(self, plan: Plan, folder: str) -> RunningEngine: ...
    def interfaces(self) -> Mapping[str, KernelInterface]:
        """What its kernel counted."""

    def external(self, commands: Commands) -> RunningDevice:
        """A device's commands, which are run there."""

    def undo(self) -> None: ...


class Here:
    def __init__(self, binary: Path, state: RunState) -> None:
        self._binary, self._state = binary, state
        self._ledger = Ledger(state.path)

    def ready(self, devices: Mapping[str, Device], listening: Collection[str]) -> None:
        without_sockets({name: to for name, to in devices.items() if name in listening})
        make_ready(devices, self._ledger)

    def start(self, plan: Plan, folder: str) -> Engine:
        """DPDK numbers a packet socket's fanout group by process and interface, so that two engines
        may have one number, which the kernel refuses; another process has another."""
        try:
            return Engine(self._binary, plan, self._state, folder=folder)
        except EngineRefused as error:
            if "PACKET_FANOUT" not in error.problem:
                raise
            return Engine(self._binary, plan, self._state, folder=folder)

    def interfaces(self) -> Mapping[str, KernelInterface]:
        return interfaces_here()

    def external(self, commands: Commands) -> ExternalDevice:
        return ExternalDevice(commands, self._state.path, self._ledger)

    def undo(self) -> None:
        self._ledger.undo()
