# SPDX-License-Identifier: Apache-2.0
"""What a server's agent (agent.py) answers, as it has to be. A server is trusted with what it
measures, and says what it likes: what is not of this form is an error of one line."""

from __future__ import annotations

from headrace.host.plumbing import KernelInterface
from headrace.host.scheduling import Thread
from headrace.record.environment import Environment
from headrace.record.frozen import Record


class Done(Record):
    ok: bool


class Hello(Done):
    version: str
    cpus: tuple[int, ...]
    threads: dict[int, tuple[int, ...]]
    nodes: dict[int, int]


class Ports(Done):
    devices: dict[str, str]
    unfit: dict[str, str]


class Provided(Done):
    hugepages: bool
    note: str


class Stored(Done):
    path: str


class Interfaces(Done):
    interfaces: dict[str, KernelInterface]


class About(Done):
    environment: Environment


class Begun(Done):
    refused: tuple[str, str] | None = None


class DutCounters(Done):
    counters: dict[str, int]


class Shielded(Done):
    shielded: bool


class Threads(Done):
    threads: dict[int, Thread]
    stolen_ns: dict[int, int]
