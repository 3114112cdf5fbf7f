# SPDX-License-Identifier: Apache-2.0
"""What a server is asked of its part of a chain of appliances, and what it answers."""

from __future__ import annotations

from headrace.ground.appliances.addressing import ContainerLayout
from headrace.ground.appliances.graph import ChargeReading, Supply
from headrace.ground.wired.answers import Done
from headrace.host.plumbing import InterfaceCount
from headrace.record.frozen import Record


class AskedPart(Record):
    """`uplinks`: LAN, and the interface by which it goes on to another server."""

    server: str
    layout: ContainerLayout
    supplies: dict[str, Supply]
    uplinks: dict[int, str]


class PartUp(Done):
    notes: tuple[str, ...]
    cpus: int


class CommandBegun(Done):
    number: int


class CommandEnded(Done):
    over: bool
    status: int = 0
    output: str = ""
    errors: str = ""


class PortsCounted(Done):
    interfaces: dict[str, dict[str, InterfaceCount]]


class PartCharged(Done):
    reading: ChargeReading
