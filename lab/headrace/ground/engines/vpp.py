# SPDX-License-Identifier: Apache-2.0
"""A chain as FD.io's VPP forwards it, between the very ports that headrace would have: a program
that users name, in files and sockets of the run's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.ground.contract import Site
from headrace.ground.engines.adapter import Declared, Work
from headrace.ground.engines.routes import routes
from headrace.ground.engines.vpp_check import check_chain
from headrace.ground.engines.vpp_console import VppConsole
from headrace.ground.engines.vpp_differences import differences
from headrace.ground.engines.vpp_lines import VppLines, vpp_lines
from headrace.ground.wired.devices import make_ready, without_sockets
from headrace.ground.wired.external import Commands
from headrace.host.ledger import Ledger
from headrace.host.programs import find, find_vpp
from headrace.spec.testbed import ExternalDut, WirePort

_HEAP_MB, _STATE_OF_MB = 1024, 1000  # and so many routes, or sessions, for each MiB more
_BESIDE = (
    "Its nodes pass up to 256 packets on at once; each counts packets and cycles, and interfaces "
    "count packets and bytes.",
    "Cycles are those of its nodes (`show runtime`), without the loop that calls them; polls that "
    "find nothing are taken off at what they cost while there were no packets.",
)
_COPIED = ("Its memif ports copy packets (`no-zero-copy`), as headrace's driver does.",)
_ROUTER = (
    "A router's port has all of IPv4's input, as checks of lengths and checksums, whatever the "
    "functions.",
)
_REFLECTED = (
    "An acl keeps a session of each flow that it permits, of both directions, with timeouts, and "
    "looks there first.",
)
_TRANSLATED = (
    "A nat (nat44-ed) puts datagrams together for their ports, follows TCP's states, and keeps "
    "sessions by both endpoints in a table for both directions.",
)
_BALANCED = (
    "An lb always keeps a flow's backend in a table for a hash of it (two flows of one hash share "
    "it), and translates UDP only.",
)


@dataclass(frozen=True)
class VppForwarder:
    work: Work
    lines: VppLines
    binary: Path

    @property
    def beside(self) -> tuple[str, ...]:
        known = {node.nf for node in self.work.experiment.nodes}
        memif = self.lines.ports[0][1].to.kind == "memif"
        more: tuple[str, ...] = _COPIED if memif else ()
        more += _ROUTER if "l3fwd" in known else ()
        if "acl" in known and self.work.experiment.study.deployment.vpp.reflect:
            more += _REFLECTED
        more += _TRANSLATED if "nat" in known else ()
        more += _BALANCED if "lb" in known else ()
        return (*_BESIDE, *more, f"Its main thread sleeps on lcore {self._main}.")

    @property
    def declared(self) -> tuple[Declared, ...]:
        return differences(self.work)

    @property
    def programs(self) -> tuple[str, ...]:
        vppctl = find("vppctl", [self.binary.parent / "vppctl"], f" beside {self.binary}")
        return (str(self.binary), str(vppctl))

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        """Nothing of an earlier start is read: files are written anew, the socket is its own."""
        folder = site.state.path
        own = folder / "vpp"
        ledger.note("path", str(own))
        own.mkdir(mode=0o700)
        startup = folder / "vpp.conf"
        startup.write_text(self._startup(own, site))
        devices = {name: port.to for name, port in self.lines.ports}
        without_sockets(devices)
        make_ready(devices, ledger)
        names = dict(zip(self.lines.interfaces, devices, strict=True))
        binary, vppctl = self.programs
        return Commands(
            ExternalDut(start=(binary, "-c", str(startup))),
            place="deployment.engine: vpp",
            console=VppConsole(
                Path(vppctl), own / "cli.sock", folder / "vpp.lines", self.lines.lines,
                self.lines.plugins, names, self.lines.counted,
            ),
        )  # fmt: skip

    @property
    def _main(self) -> int:
        """A CPU that is not the chain's; one that is not the tester's either, if there is any."""
        free = sorted(os.sched_getaffinity(0) - set(self.work.cpus))
        idle = [cpu for cpu in free if cpu not in self.work.tester]
        return (idle or free or list(self.work.tester))[-1]

    def _startup(self, own: Path, site: Site) -> str:
        """No plugins but those needed, no shared memory under a name of all, no hugepages where
        headrace has none."""
        workers = ",".join(map(str, self.work.cpus))
        plugins = " ".join(f"plugin {one} {{ enable }}" for one in self.lines.plugins)
        pages = "default-hugepage" if site.engine.hugepages else "default"
        return "\n".join((
            f"unix {{ nodaemon nobanner nosyslog cli-listen {own}/cli.sock runtime-dir {own} }}",
            f"cpu {{ main-core {self._main} corelist-workers {workers} }}",
            f"memory {{ main-heap-size {self._heap_mb}M }}",
            f"buffers {{ page-size {pages} }}",
            f"api-segment {{ prefix {site.state.path.name} }}",
            f"statseg {{ socket-name {own}/stats.sock }}",
            f"plugins {{ plugin default {{ disable }} {plugins} }}",
            "",
        ))  # fmt: skip

    @property
    def _heap_mb(self) -> int:
        nodes = self.work.experiment.nodes
        count = sum(len(routes(one.params, self.work.doc)) for one in nodes if one.nf == "l3fwd")
        count *= len(self.work.ports)
        count += sum(int(one.params.get("sessions", 0)) for one in nodes if one.nf == "nat")
        return _HEAP_MB + count // _STATE_OF_MB


def no_vpp(spec: dict[str, Any]) -> str | None:
    """Why a point of a study has none; a path that it names is looked at when it is checked."""
    if spec.get("deployment", {}).get("vpp", {}).get("path") is not None:
        return None
    try:
        find_vpp()
    except HeadraceError as why:
        return str(why)
    return None


def vpp(work: Work) -> VppForwarder:
    """BadInput where a function or parameter cannot be expressed, or there is no program."""
    check_chain(work)
    study = work.experiment.study
    bed = study.testbed
    assert bed is not None
    ports: tuple[tuple[str, WirePort], ...] = tuple((name, bed.ports[name]) for name in bed.chain)
    return VppForwarder(work, vpp_lines(work, ports), _binary(work))


def _binary(work: Work) -> Path:
    given = work.experiment.study.deployment.vpp.path
    if given is None:
        return find_vpp()
    at = ("deployment", "vpp", "path")
    path = work.doc.program(at, given)
    if not path.is_file() or not os.access(path, os.X_OK):
        raise work.doc.error(at, "no program there; allowed: an executable vpp", value=str(given))
    return path
