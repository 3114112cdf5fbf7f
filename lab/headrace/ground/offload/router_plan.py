# SPDX-License-Identifier: Apache-2.0
"""The engine's plan: a `router` between the host's ports, and TAPs into the VNFs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.engine.plan_document import (
    Params,
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanSegment,
    Targets,
)
from headrace.engine.ways import Direction
from headrace.spec.offload import Interface, OffloadService, RouterVnf

ROUTER = "router"
TAPS = "taps"
LEARN = {"frr": "fpm", "bird": "kernel", "none": "kernel"}


def interfaces(spec: OffloadService) -> Iterator[tuple[str, str, Interface]]:
    """Interfaces in the order that the engine numbers them."""
    for name, vnf in spec.vnfs.items():
        for device, interface in vnf.interfaces.items():
            yield name, device, interface


def macs(spec: OffloadService) -> dict[tuple[str, str], str]:
    """Those that are given; the others locally administered (IEEE 802), by number."""
    return {
        (vnf, device): interface.mac or f"02:48:52:00:{i >> 8:02x}:{i & 255:02x}"
        for i, (vnf, device, interface) in enumerate(interfaces(spec))
    }


def compile_plan(
    spec: OffloadService, cpu: int, engine: PlanEngine, namespaces: Mapping[str, str]
) -> Plan:
    """`namespaces` has the file of each VNF's network namespace."""
    links = {
        _link(name): PlanLink(type="port", params={"devargs": port.device})
        for name, port in spec.ports.items()
        if port.device is not None
    }
    mac = macs(spec)
    taps = [
        {"name": device, "netns": namespaces[vnf], "mac": mac[vnf, device]}
        for vnf, device, _ in interfaces(spec)
    ]
    links[TAPS] = PlanLink(type="taps", params={"taps": taps})
    return Plan(
        engine=engine,
        links=links,
        nfs={ROUTER: PlanFunction(type="router", params=_router(spec, namespaces))},
        segments=(_segment(spec, cpu),),
    )


def _link(port: str) -> str:
    return f"port-{port}"


def _router(spec: OffloadService, namespaces: Mapping[str, str]) -> Params:
    return {
        "punt_pps": spec.punt_pps,
        "vnfs": [_vnf(spec, name, vnf, namespaces[name]) for name, vnf in spec.vnfs.items()],
    }


def _vnf(spec: OffloadService, name: str, vnf: RouterVnf, namespace: str) -> Params:
    numbers = {port: i for i, port in enumerate(spec.ports)}
    mac = macs(spec)
    return {
        "name": name,
        "netns": namespace,
        "learn": LEARN[vnf.routing.daemon],
        "hold_s": vnf.hold,
        "interfaces": [
            {"name": device, "port": numbers[interface.port], "mac": mac[name, device]}
            for device, interface in vnf.interfaces.items()
        ],
    }


def _segment(spec: OffloadService, cpu: int) -> PlanSegment:
    targets = {"punt": f"link:{TAPS}"}
    inputs = []
    for i, (name, port) in enumerate(spec.ports.items()):
        if port.device is None:
            targets[f"out{i}"] = "drop"
            continue
        targets[f"out{i}"] = f"link:{_link(name)}"
        inputs.append(PlanInput(link=_link(name), to=ROUTER, port=i))
    inputs.append(PlanInput(link=TAPS, to=ROUTER, direction="reverse"))
    nodes: dict[str, dict[Direction, Targets]] = {ROUTER: {"forward": targets}}
    return PlanSegment(name="offload", cpus=(cpu,), inputs=tuple(inputs), nodes=nodes)
