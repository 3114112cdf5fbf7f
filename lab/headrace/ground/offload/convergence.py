# SPDX-License-Identifier: Apache-2.0
"""How many route changes a second a real routing daemon brings into the engine's table.

A BGP speaker, BIRD in a VNF of its own, announces routes to the daemon that is measured, has them
all change their next hop, there and back, and withdraws them: RFC 7747's convergence of the data
plane after each event of RFC 4098, without its tester's packets, as the engine says itself when it
has taken a change. FRR: bgpd, zebra, FPM. BIRD: the kernel's table, rtnetlink.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.collect.collector import cpu_times_s
from headrace.errors import HeadraceError
from headrace.ground.contract import Offer, Site, resolved_of
from headrace.ground.offload import namespaces
from headrace.ground.offload.daemons import Daemons, programs
from headrace.ground.offload.service import Service
from headrace.ground.offload.up import ServiceUp
from headrace.host.bounded import Unbounded, run_bounded
from headrace.host.programs import find_engine
from headrace.record.convergence import RouteChange
from headrace.record.offload_report import OffloadedVnf
from headrace.record.resolved import ResolvedExperiment
from headrace.record.segments import Segment
from headrace.spec.document import Document
from headrace.spec.lines import lines_of
from headrace.spec.measure import Convergence
from headrace.spec.offload import OffloadService
from headrace.spec.study import Study

Json = dict[str, Any]
Networks = list[ipaddress.IPv4Network]
_ROUTER, _SPEAKER, _LINK = "router", "speaker", "core"
_FIRST = int(ipaddress.IPv4Address("20.0.0.0"))
# Addresses in the link's network that nobody has: routes go by the one, then by the other.
_GATEWAYS = {
    "left": ("10.9.0.66", "02:00:00:00:04:01"),
    "right": ("10.9.0.67", "02:00:00:00:04:02"),
}
_SESSION_S = 60.0
_QUIET_S, _POLL_S = 0.5, 0.01
_SAMPLED = 200
_OWN = 1  # routes of the VNF that are not the speaker's: the link's network
_ASK_S = 60
_FRR = """\
hostname router
router bgp 65001
 bgp router-id 10.9.0.1
 no bgp ebgp-requires-policy
 timers bgp 30 90
 neighbor 10.9.0.2 remote-as 65002
 neighbor 10.9.0.2 timers connect 1
"""
_BIRD = """\
router id 10.9.0.1;
protocol device {}
protocol kernel { ipv4 { export all; import none; }; }
protocol bgp peer {
  local 10.9.0.1 as 65001; neighbor 10.9.0.2 as 65002; hold time 90; connect retry time 1;
  ipv4 { import all; export none; };
}
"""
_SPEAKS = """\
router id 10.9.0.2;
protocol device {}
protocol bgp peer {
  local 10.9.0.2 as 65002; neighbor 10.9.0.1 as 65001; hold time 90; connect retry time 1;
  ipv4 { import none; export all; };
}
"""
# Those of `right` are preferred as long as they are there.
_STATIC = """\
protocol static {} {{
  disabled; ipv4 {{ preference {}; }};
  include "{}";
}}
"""
# What the speaker is told, in each round; the state that the engine must come to.
_EVENTS = (
    ("announce", "enable left", "left"),
    ("replace", "enable right", "right"),
    ("replace", "disable right", "left"),
    ("withdraw", "disable left", None),
)


@dataclass(frozen=True)
class SpeakerPoint:
    """A daemon, and the speaker that tells it its routes."""

    doc: Document
    study: Study
    daemon: str
    asked: Convergence
    cpu: int
    networks: Networks
    notes: Sequence[str] = ()

    @property
    def chain(self) -> str:
        return self.study.name

    @property
    def execution(self) -> str:
        return f"offload {self.daemon}"

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset({self.cpu})

    @property
    def segments(self) -> tuple[Segment, ...]:
        return (Segment(name="router", cpus=(self.cpu,)),)

    @property
    def offers(self) -> Sequence[Offer]:
        return [Offer(f"{len(self.networks)} routes", self.asked)]

    @property
    def runs(self) -> Sequence[str]:
        return [str(find_engine()), *programs(self.daemon)]

    def resolved(self) -> ResolvedExperiment:
        return resolved_of(self, self.study)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[SpeakerUp]:
        with site.state.folder("convergence") as folder:
            spec = _service_spec(self, folder)
            doc = self.doc.with_own(folder)
            with Service(spec, doc, site.say, site=site) as service:
                yield SpeakerUp(self, service)


class SpeakerUp(ServiceUp):
    """What convergence asks of it; there are no packets."""

    def __init__(self, point: SpeakerPoint, service: Service) -> None:
        super().__init__(service)
        self._point = point
        for address, mac in _GATEWAYS.values():
            namespaces.add_neighbour(service.spec, _ROUTER, _LINK, address, mac)

    def converging(self) -> SpeakerUp:
        return self

    def changes(self, repetition: int) -> Iterator[RouteChange]:
        """Each event, as the speaker is told of it."""
        _await_session(self.service)
        for event, command, gateway in _EVENTS:
            yield self._change(repetition, event, command, gateway)

    def _change(
        self, repetition: int, event: str, command: str, gateway: str | None
    ) -> RouteChange:
        service, networks, asked = self.service, self._point.networks, self._point.asked
        before, busy = _shown(service), _cpu_s(service)
        began_ns = time.monotonic_ns()
        _speaker(service, command)
        first = _await_first(asked, service, before, event)
        wanted = _OWN + (len(networks) if gateway else 0)
        last = _await_last(asked, service, networks, wanted, gateway, event)
        took_s, reaction_s = ((one.last_update_ns - began_ns) / 1e9 for one in (last, first))
        return RouteChange(
            daemon=self._point.daemon,
            event=event,
            repetition=repetition,
            routes=len(networks),
            per_s=len(networks) * _per_s(before, first, last, began_ns),
            seconds=took_s,
            reaction_s=reaction_s,
            busy={name: (spent - busy[name]) / took_s for name, spent in _cpu_s(service).items()},
        )


def networks_of(c: Convergence, doc: Document) -> Networks:
    """Networks of the file, or /24s one after the other."""
    if c.prefixes is None:
        return [ipaddress.IPv4Network((_FIRST + 256 * i, 24)) for i in range(c.routes)]
    at, file = ("measure", "convergence", "prefixes"), doc.resolve(c.prefixes)
    networks: dict[ipaddress.IPv4Network, None] = {}
    try:
        for number, line in enumerate(lines_of(file), 1):
            words = line.split()
            if words and ":" not in words[0]:
                try:
                    networks[ipaddress.IPv4Network(words[0])] = None
                except ValueError as why:
                    raise doc.error(at, f"{file}:{number}: {why}") from None
            if len(networks) == c.routes:
                return list(networks)
    except OSError as why:
        raise doc.error(at, f"{file} cannot be read: {why}") from None
    raise doc.error(
        ("measure", "convergence", "routes"),
        f"{c.routes}, but {file} has {len(networks)} IPv4 prefixes; allowed: at most so many",
    )


def _service_spec(point: SpeakerPoint, folder: Path) -> OffloadService:
    daemon, networks = point.daemon, point.networks
    (folder / "router.conf").write_text(_FRR if daemon == "frr" else _BIRD)
    speaks = _SPEAKS
    for preference, (name, (gateway, _)) in enumerate(_GATEWAYS.items(), 200):
        file = folder / name
        file.write_text("".join(f"route {one} via {gateway};\n" for one in networks))
        speaks += _STATIC.format(name, preference, file)
    (folder / "speaker.conf").write_text(speaks)
    vnfs = {
        vnf: {
            "routing": {"daemon": kind, "config": str(folder / f"{vnf}.conf"), "restart": False},
            "interfaces": {_LINK: {"port": _LINK, "addresses": [f"10.9.0.{number}/24"]}},
        }
        for number, (vnf, kind) in enumerate(((_ROUTER, daemon), (_SPEAKER, "bird")), 1)
    }
    return OffloadService.model_validate(
        {
            "name": point.study.name,
            "ports": {_LINK: {}},
            "vnfs": vnfs,
            "lcore": point.cpu,
            "memory_mb": point.study.deployment.memory_mb,
        }
    )


def _speaker(service: Service, command: str) -> str:
    socket = service.daemons[_SPEAKER].folder / "bird.ctl"
    try:
        return run_bounded(["birdc", "-s", str(socket), *command.split()], _ASK_S).stdout
    except Unbounded as why:
        raise HeadraceError(f"offload: birdc {why}") from None


def _await_session(service: Service) -> None:
    deadline = time.monotonic() + _SESSION_S
    while (
        "Established" not in _speaker(service, "show protocols peer")
        or _shown(service).ipv4_routes != _OWN  # FPM comes up on its own
    ):
        _alive(service)
        if time.monotonic() > deadline:
            raise HeadraceError(f"offload: no BGP session after {_SESSION_S:g} s")
        time.sleep(0.2)


def _per_s(before: OffloadedVnf, first: OffloadedVnf, last: OffloadedVnf, began_ns: int) -> float:
    """The part of the changes that came after the first look at them, in its time; a route may
    take more than one message. Where there was but one look: all, since the speaker was told."""
    if first.updates == last.updates:
        return float(1e9 / (last.last_update_ns - began_ns))
    part = (last.updates - first.updates) / (last.updates - before.updates)
    return float(part * 1e9 / (last.last_update_ns - first.last_update_ns))


def _shown(service: Service) -> OffloadedVnf:
    [router] = [v for v in service.show().vnfs if v.name == _ROUTER]
    return router


def _await_first(
    c: Convergence, service: Service, before: OffloadedVnf, event: str
) -> OffloadedVnf:
    """The first look after the engine took a change."""
    deadline = time.monotonic() + c.timeout
    while (now := _shown(service)).updates == before.updates:
        _not_after(c, service, deadline, event)
        time.sleep(_POLL_S)
    return now


def _await_last(
    c: Convergence, service: Service, networks: Networks, wanted: int, gateway: str | None,
    event: str,
) -> OffloadedVnf:  # fmt: skip
    """Routes are counted; their next hops are looked up, of some of them over the whole table,
    when no change has come for a while."""
    deadline = time.monotonic() + c.timeout
    while True:
        now = _shown(service)
        quiet_ns = time.monotonic_ns() - now.last_update_ns
        there = quiet_ns > _QUIET_S * 1e9 and now.ipv4_routes == wanted
        if there and all(_goes(service, one) == gateway for one in _some(networks)):
            return now
        _not_after(c, service, deadline, event)
        time.sleep(_POLL_S if quiet_ns < _QUIET_S * 1e9 else _QUIET_S)


def _some(networks: Networks) -> Networks:
    return [*networks[:: max(1, len(networks) // _SAMPLED)], networks[-1]]


def _goes(service: Service, network: ipaddress.IPv4Network) -> str | None:
    """The gateway that a packet to it goes by."""
    route = service.update(op="lookup", vnf=_ROUTER, address=str(network[0]))
    return next((n for n, (_, mac) in _GATEWAYS.items() if mac == route.get("mac")), None)


def _not_after(c: Convergence, service: Service, deadline: float, event: str) -> None:
    _alive(service)
    if time.monotonic() > deadline:
        has = _shown(service).ipv4_routes
        raise HeadraceError(
            f"offload: {event}: not all routes changed in {c.timeout:g} s; the table has {has}"
        )


def _alive(service: Service) -> None:
    for vnf, one in service.daemons.items():
        for daemon in one.watch()[0]:
            raise HeadraceError(f"vnfs.{vnf}: {daemon} died: {one.last_words(daemon)}")


def _cpu_s(service: Service) -> dict[str, float]:
    """CPU time of each daemon, in all."""
    return {name: sum(cpu_times_s(pid) or (0.0,)) for name, pid in _pids(service.daemons)}


def _pids(daemons: dict[str, Daemons]) -> Iterator[tuple[str, int]]:
    for vnf, one in daemons.items():
        for daemon, running in one.running.items():
            if running.process is not None:
                yield (daemon if vnf == _ROUTER else vnf), running.process.pid
