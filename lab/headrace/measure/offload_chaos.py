# SPDX-License-Identifier: Apache-2.0
"""Routing daemons killed at random and started again under traffic: the engine must never notice,
and a VNF's packets go on by the routes that it had."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyroute2 import netns

from headrace.errors import HeadraceError
from headrace.ground.offload import namespaces
from headrace.ground.offload.fpm import prefixes
from headrace.ground.offload.plan import ROUTER, macs
from headrace.ground.offload.service import Service
from headrace.host.state import dpdk_directories
from headrace.spec.document import Document
from headrace.spec.offload import Chaos, ChaosSpec, OffloadService

Json = dict[str, Any]
Say = Callable[[str], None]
_NEXT_HOP = "02:00:00:00:03:01"  # of what is behind the wire
_FLOWS = 64  # of each VNF
_RING = 4096
_READY_S, _SETTLE_S = 120.0, 1.0
_BURST = 64  # a queue for one burst may hold buffers; more would be a leak
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


@dataclass
class Outcome:
    seconds: float = 0.0
    kills: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    sent: int = 0
    received: int = 0
    updates: int = 0
    mbufs_before: int = 0
    mbufs_after: int = 0
    still: int = 0  # times that no packet at all came through between two kills
    not_back: tuple[str, ...] = ()  # VNFs that did not get their routes again
    left: tuple[str, ...] = ()  # what the run left on the machine, found when it was over

    @property
    def passed(self) -> bool:
        return (
            not self.left
            and not self.not_back
            and self.still == 0
            and self.mbufs_after <= self.mbufs_before + _BURST
        )


def chaos(spec: ChaosSpec, doc: Document, cpus: tuple[int, int], say: Say) -> Outcome:
    """`cpus`: of traffic, and of the router."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as folder:
        made = _service_spec(spec, cpus[1], Path(folder))
        addresses = Path(folder) / "addresses"
        addresses.write_text("".join(f"{one}\n" for one in _destinations(spec.chaos)))
        adapt = partial(_with_traffic, spec.chaos, made, cpus[0], str(addresses))
        service = Service(made, doc, say, adapt)
        with service:
            _know_next_hops(made)
            _await_routes(service, spec.chaos)
            _run(service, spec.chaos, outcome, say)
    outcome.left = tuple(_left(made, service))
    return outcome


def _service_spec(spec: ChaosSpec, cpu: int, folder: Path) -> OffloadService:
    """Each VNF is on the wire, where its packets come and go, and speaks BGP to its neighbours over
    a link of their own."""
    vnfs = {}
    for number in range(1, spec.chaos.vnfs + 1):
        config = folder / f"v{number}.conf"
        config.write_text(_config(spec.chaos, number))
        routing: Json = {"daemon": spec.chaos.daemon, "config": str(config), "restart": False}
        if spec.chaos.daemon == "frr":
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
            "name": spec.name,
            "ports": {"wire": {}, "core": {}},
            "vnfs": vnfs,
            "lcore": cpu,
            "hugepages": spec.hugepages,
            "memory_mb": spec.memory_mb,
        }
    )


def _config(chaos: Chaos, number: int) -> str:
    routes = prefixes(chaos.routes, number - 1)
    around = {n for n in (number - 1, number + 1) if 1 <= n <= chaos.vnfs}
    frr = chaos.daemon == "frr"
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


def _destinations(chaos: Chaos) -> Iterator[str]:
    """Of flow i, which the i-th MAC goes with: VNF after VNF."""
    of_vnf = [prefixes(chaos.routes, vnf) for vnf in range(chaos.vnfs)]
    for i in range(chaos.vnfs * _FLOWS):
        routes = of_vnf[i % chaos.vnfs]
        yield str(routes[i // chaos.vnfs % len(routes)][1])


def _with_traffic(chaos: Chaos, spec: OffloadService, cpu: int, addresses: str, plan: Json) -> Json:
    """A tester at the other end of the wire."""
    source = {
        "frame_bytes": [chaos.frame],
        "flows": chaos.vnfs * _FLOWS,
        "dst_ips_file": addresses,
        "dst_macs": [macs(spec)[name, "eth0"] for name in spec.vnfs],
    }
    ring = {"type": "ring", "params": {"size": _RING}}
    links = {"gen": {"type": "source", "params": source}, "out": ring, "back": ring,
             "meas": {"type": "sink", "params": {}}}  # fmt: skip
    [router] = plan["segments"]
    number = list(spec.ports).index("wire")
    targets = router["nodes"][ROUTER]["forward"] | {f"out{number}": "link:back"}
    router = {
        **router,
        "inputs": [{"link": "out", "to": ROUTER, "port": number}, *router["inputs"]],
        "nodes": {ROUTER: {**router["nodes"][ROUTER], "forward": targets}},
    }
    tester = [
        {"name": "generator", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:out"}]},
        {"name": "measure", "cpus": [cpu], "inputs": [{"link": "back", "to": "link:meas"}]},
    ]
    return {**plan, "links": plan["links"] | links, "segments": [*tester, router]}


def _know_next_hops(spec: OffloadService) -> None:
    """Nobody is behind the wire who would answer ARP."""
    for number, name in enumerate(spec.vnfs, 1):
        namespaces.add_neighbour(spec, name, "eth0", f"10.255.{number}.2", _NEXT_HOP)


def _await_routes(service: Service, chaos: Chaos) -> None:
    deadline = time.monotonic() + _READY_S
    while missing := _without_routes(service, chaos):
        if time.monotonic() > deadline:
            raise HeadraceError(f"{', '.join(missing)}: no routes after {_READY_S:g} s")
        time.sleep(0.2)


def _without_routes(service: Service, chaos: Chaos) -> tuple[str, ...]:
    """VNFs that are not up with all of their routes."""
    vnfs = service.show()["vnfs"]
    return tuple(v["name"] for v in vnfs if not v["up"] or v["ipv4_routes"] < chaos.routes)


def _run(service: Service, chaos: Chaos, outcome: Outcome, say: Say) -> None:
    engine = service.engine
    assert engine is not None
    choose = random.Random(chaos.seed)
    outcome.kills = dict.fromkeys(service.daemons, 0)
    outcome.mbufs_before = int(engine.request("read")["mbufs_in_use"])
    each = {"rate_pps": chaos.load, "duration_s": chaos.duration * 2}
    engine.request("start", sources={"gen": each})
    began, came, turn = time.monotonic(), 0, 0
    with _restarting(service, outcome) as (up, restart):
        while time.monotonic() - began < chaos.duration:
            now = int(engine.request("read")["links"]["meas"]["stamped"])
            outcome.still += now == came and turn > 0
            came = now
            if there := up():
                name = choose.choice(there)
                outcome.kills[name] += 1
                restart(name)
            turn += 1
            if turn % 60 == 0:
                say(f"{sum(outcome.kills.values())} kills, {came} packets came through")
            time.sleep(max(0.0, began + turn * chaos.every - time.monotonic()))
    engine.request("stop")
    outcome.not_back = _settle(service, chaos)
    after = engine.request("read")
    outcome.seconds = time.monotonic() - began
    outcome.sent = int(after["links"]["gen"]["sent"])
    outcome.received = int(after["links"]["meas"]["stamped"])
    outcome.mbufs_after = int(after["mbufs_in_use"])
    outcome.updates = sum(v["updates"] for v in service.show()["vnfs"])


@contextmanager
def _restarting(
    service: Service, outcome: Outcome
) -> Iterator[tuple[Callable[[], list[str]], Callable[[str], None]]]:
    """Daemons take their time to start: others are killed meanwhile. Which VNFs are up, and what
    kills one of them and starts it again."""
    going: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(len(service.daemons)) as pool:

        def up() -> list[str]:
            for name in [name for name, one in going.items() if one.done()]:
                going.pop(name).result()
                outcome.restarts += 1
            return [name for name in service.daemons if name not in going]

        def restart(name: str) -> None:
            service.daemons[name].kill()
            going[name] = pool.submit(service.daemons[name].start)

        yield up, restart
        for one in going.values():
            one.result()
        outcome.restarts += len(going)


def _settle(service: Service, chaos: Chaos) -> tuple[str, ...]:
    deadline = time.monotonic() + _READY_S
    while (missing := _without_routes(service, chaos)) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(_SETTLE_S)
    return missing


def _left(spec: OffloadService, service: Service) -> Iterator[str]:
    """Namespaces, with the TAPs in them; files; processes that were in the namespaces."""
    wanted = {namespaces.of(spec, name) for name in spec.vnfs}
    yield from sorted(wanted & set(netns.listnetns()))
    yield from (str(folder) for folder in dpdk_directories(f"{service.prefix}*"))
    folder = str(service.folder)
    if service.folder.exists():
        yield folder
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in line:
            yield f"{process.name} {line}"
