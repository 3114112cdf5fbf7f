# SPDX-License-Identifier: Apache-2.0
"""Routing daemons that are killed at random and started again under traffic: a VNF's packets go on
by the routes that it had."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from headrace.engine.plan_compiler import Path
from headrace.engine.plan_document import Plan, PlanInput, passing, ring
from headrace.engine.reading import sending
from headrace.errors import HeadraceError
from headrace.ground.contract import ChainHealth, Offer, Site, resolved_of
from headrace.ground.offload import namespaces
from headrace.ground.offload.daemons import programs
from headrace.ground.offload.fpm import destinations, prefixes, write_addresses
from headrace.ground.offload.router_plan import ROUTER, macs
from headrace.ground.offload.service import Service
from headrace.ground.offload.up import ServiceUp
from headrace.host import netlink
from headrace.host.programs import find_engine
from headrace.record.resolved import ResolvedExperiment
from headrace.record.segments import Segment
from headrace.spec.document import Document
from headrace.spec.offload import OffloadService
from headrace.spec.study import Study

Json = dict[str, Any]
WAY = Path("forward")
FLOWS = 64  # of each VNF
_NEXT_HOP = "02:00:00:00:03:01"  # of what is behind the wire
_RING = 4096
_READY_S, _SETTLE_S = 120.0, 1.0
_BURST = 64  # a queue for one burst may hold buffers
_FRR = """\
hostname {name}
{routes}
router bgp {asn}
 bgp router-id 10.9.0.{number}
 no bgp ebgp-requires-policy
 no bgp network import-check
{peers}
 address-family ipv4 unicast
  network 10.{number}.255.0/24
 exit-address-family
"""
_BIRD = """\
router id 10.9.0.{number};
protocol device {{}}
protocol kernel {{ ipv4 {{ export all; import none; }}; }}
protocol static {{ ipv4; {routes} }}
{peers}
"""


@dataclass(frozen=True)
class Routers:
    """VNFs with a routing daemon each, and the packets that go through them all."""

    vnfs: int
    daemon: str
    routes: int  # of each
    frame: int

    def addresses(self) -> list[str]:
        return destinations(self.vnfs, self.routes, self.vnfs * FLOWS)


@dataclass(frozen=True)
class RoutersPoint:
    """VNFs whose daemons can be killed, with a tester at the other end of their wire."""

    doc: Document
    study: Study
    routers: Routers
    traffic_cpus: tuple[int, int]  # of traffic, and of the router
    notes: Sequence[str] = ()

    @property
    def chain(self) -> str:
        return self.study.name

    @property
    def execution(self) -> str:
        return f"offload {self.routers.daemon}"

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(self.traffic_cpus)

    @property
    def segments(self) -> tuple[Segment, ...]:
        traffic, router = self.traffic_cpus
        return (
            Segment(name="generator", cpus=(traffic,), role="generator"),
            Segment(name="router", cpus=(router,), nfs=(ROUTER,)),
            Segment(name="sink", cpus=(traffic,), role="sink"),
        )

    @property
    def offers(self) -> Sequence[Offer]:
        name = f"{self.routers.frame}B {self.routers.vnfs * FLOWS} flows"
        return [Offer(name, self.study.workload[0])]

    @property
    def runs(self) -> Sequence[str]:
        return [str(find_engine()), *programs(self.routers.daemon)]

    def resolved(self) -> ResolvedExperiment:
        return resolved_of(self, self.study)

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[RoutersUp]:
        with site.state.folder("chaos") as folder:
            spec = self._service(folder)
            addresses = site.state.path / "addresses"
            write_addresses(addresses, self.routers.addresses())
            adapt = partial(_with_traffic, self.routers, spec, self.traffic_cpus[0], str(addresses))
            doc = self.doc.with_own(folder)
            with Service(spec, doc, site.say, adapt, site) as service:
                _know_next_hops(spec)
                up = RoutersUp(self, site, service)
                up.await_routes()
                with up:
                    yield up

    def _service(self, folder: FilePath) -> OffloadService:
        """Each VNF is on the wire, where its packets come and go, and speaks BGP to its neighbours
        over a link of their own."""
        vnfs = {}
        for number in range(1, self.routers.vnfs + 1):
            config = folder / f"v{number}.conf"
            config.write_text(_config(self.routers, number))
            daemon = self.routers.daemon
            routing: Json = {"daemon": daemon, "config": str(config), "restart": False}
            if daemon == "frr":
                routing["daemons"] = ["staticd", "bgpd"]
            vnfs[f"v{number}"] = {
                "routing": routing,
                "interfaces": {
                    "eth0": {"port": "wire", "addresses": [f"10.255.{number}.1/24"]},
                    "core": {"port": "core", "addresses": [f"10.9.0.{number}/24"]},
                },
            }
        return OffloadService.model_validate(
            {
                "name": self.study.name,
                "ports": {"wire": {}, "core": {}},
                "vnfs": vnfs,
                "lcore": self.traffic_cpus[1],
                "memory_mb": self.study.deployment.memory_mb,
            }
        )


class RoutersUp(ServiceUp):
    """What chaos asks of it."""

    flows_on = True
    mbufs_room = _BURST
    ways_count = 1

    def __init__(self, point: RoutersPoint, site: Site, service: Service) -> None:
        super().__init__(service)
        self._point, self._site = point, site
        self._going: dict[str, Future[None]] = {}
        self._pool = ThreadPoolExecutor(len(service.daemons))
        self.restarts = 0

    def __enter__(self) -> RoutersUp:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def killable(self) -> RoutersUp:
        return self

    @property
    def frame_bytes(self) -> float:
        return self._point.routers.frame

    @property
    def victims(self) -> Sequence[str]:
        return list(self.service.daemons)

    def sending(self, load_pps: float, seconds: float) -> AbstractContextManager[None]:
        return sending(self.engine, (WAY,), load_pps, seconds)

    def up(self) -> Sequence[str]:
        """Daemons take their time to start: others are killed meanwhile."""
        for name in [name for name, one in self._going.items() if one.done()]:
            self._going.pop(name).result()
            self.restarts += 1
        return [name for name in self.service.daemons if name not in self._going]

    def kill(self, name: str) -> None:
        self.service.daemons[name].kill()
        self._going[name] = self._pool.submit(self.service.daemons[name].start)

    def settle(self) -> Sequence[str]:
        for one in self._going.values():
            one.result()
        self.up()
        self.engine.request("stop")
        deadline = time.monotonic() + _READY_S
        while (missing := self._without_routes()) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(_SETTLE_S)
        return missing

    def health(self) -> ChainHealth:
        read = self.engine.read()
        source = read.source(WAY.source)
        return ChainHealth(
            sent=source.sent,
            sending_s=source.duration_ns / 1e9,
            received=read.sink(WAY.sink).stamped,
            corrupt=0,
            updates=sum(v.updates for v in self.service.show().vnfs),
            mbufs=read.mbufs_in_use,
        )

    def handed_over(self) -> None:
        """They have nothing to hand over."""
        return None

    def taken(self) -> None:
        """Routers keep nothing for one another: daemons learn their routes anew."""
        return None

    def await_routes(self) -> None:
        deadline = time.monotonic() + _READY_S
        while missing := self._without_routes():
            if time.monotonic() > deadline:
                raise HeadraceError(f"{', '.join(missing)}: no routes after {_READY_S:g} s")
            time.sleep(0.2)

    def _without_routes(self) -> tuple[str, ...]:
        """VNFs that are not up with all of their routes."""
        routes = self._point.routers.routes
        vnfs = self.service.show().vnfs
        return tuple(v.name for v in vnfs if not v.up or v.ipv4_routes < routes)

    def left(self) -> Sequence[str]:
        """Namespaces, with the TAPs in them; files; processes that were in the namespaces."""
        spec, folder = self.service.spec, self._site.state.path
        names = {namespaces.of(spec, name) for name in spec.vnfs}
        return [
            *sorted(names & set(netlink.netns.listnetns())),
            *([str(folder)] if folder.exists() else []),
            *_processes_of(str(folder)),
        ]


def _processes_of(folder: str) -> Iterator[str]:
    for process in FilePath("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in line:
            yield f"{process.name} {line}"


def _config(routers: Routers, number: int) -> str:
    routes = prefixes(routers.routes, number - 1)
    around = {n for n in (number - 1, number + 1) if 1 <= n <= routers.vnfs}
    frr = routers.daemon == "frr"
    way = "ip route {} 10.255.{}.2" if frr else "route {} via 10.255.{}.2;"
    peer = " neighbor 10.9.0.{n} remote-as {asn}\n neighbor 10.9.0.{n} timers connect 1"
    if not frr:
        peer = (
            f"protocol bgp {{{{ local 10.9.0.{number} as {65000 + number}; "
            "neighbor 10.9.0.{n} as {asn}; ipv4 {{ import all; export none; }}; }}"
        )
    return (_FRR if frr else _BIRD).format(
        name=f"v{number}",
        number=number,
        asn=65000 + number,
        routes="\n".join(way.format(route, number) for route in routes),
        peers="\n".join(peer.format(n=n, asn=65000 + n) for n in sorted(around)),
    )


def _with_traffic(
    routers: Routers, spec: OffloadService, cpu: int, addresses: str, plan: Plan
) -> Plan:
    """A tester at the other end of the wire."""
    source = {
        "frame_bytes": [routers.frame],
        "flows": routers.vnfs * FLOWS,
        "dst_ips_file": addresses,
        "dst_macs": [macs(spec)[name, "eth0"] for name in spec.vnfs],
    }
    links = {
        **plan.links,
        **WAY.ends(source),
        WAY.wire: ring(_RING),
        WAY.back: ring(_RING),
    }
    [router] = plan.segments
    number = list(spec.ports).index("wire")
    nodes = router.nodes or {}
    targets = nodes[ROUTER]["forward"] | {f"out{number}": f"link:{WAY.back}"}
    router = router.model_copy(
        update={
            "inputs": (PlanInput(link=WAY.wire, to=ROUTER, port=number), *router.inputs),
            "nodes": {ROUTER: {**nodes[ROUTER], "forward": targets}},
        }
    )
    segments = (
        passing("generator", cpu, [(WAY.source, WAY.wire)]),
        passing("measure", cpu, [(WAY.back, WAY.sink)]),
        router,
    )
    return plan.having(links=links, segments=segments)


def _know_next_hops(spec: OffloadService) -> None:
    """Nobody is behind the wire who would answer ARP."""
    for number, name in enumerate(spec.vnfs, 1):
        namespaces.add_neighbour(spec, name, "eth0", f"10.255.{number}.2", _NEXT_HOP)
