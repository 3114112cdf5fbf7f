# SPDX-License-Identifier: Apache-2.0
"""Before anything is measured: does each VNF see the traffic, is what arrives what was sent?"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence

from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import PORT, ContainerNode
from headrace.ground.appliances.caches import places
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.host.plumbing import InterfaceCount
from headrace.record.verdict import Finding
from headrace.spec.workload import AnyWorkload, Http

_ANSWER_WITHIN_S = 30
_REQUESTS = 12
_KEPT_MAX = 4000
ATTACKS = 3


def verify(deployed: ApplianceGraph, workloads: Sequence[AnyWorkload]) -> list[Finding]:
    """Findings that all hold; a HeadraceError names the first element that does not."""
    definitions = [deployed.supplies[n.vnf].definition for n in deployed.layout.of_kind("proxy")]
    if any(definition.serves == "dns" for definition in definitions):
        return _verify_dns(deployed)
    given = [w for w in workloads if isinstance(w, Http)]
    findings = _verify_http(deployed, given[0] if given else Http())
    for one in given:
        _keep(deployed, one)
    return findings


def _verify_dns(deployed: ApplianceGraph) -> list[Finding]:
    before = deployed.interface_counts()
    query = f"dig +short +time=2 +tries=5 @{deployed.layout.target} h7.headrace.test A"
    answer = deployed.ask("sh", "-c", query).strip()
    _all_seen(deployed, before, deployed.interface_counts(), only_to_service=True)
    if answer != "198.51.100.7":
        raise HeadraceError(f"{deployed.layout.text}: h7.headrace.test has the answer {answer!r}")
    return [Finding(check="path", ok=True, text="The answer is the zone's; each VNF saw packets.")]


def _verify_http(deployed: ApplianceGraph, workload: Http) -> list[Finding]:
    _first_answer(deployed, workload)
    before = deployed.interface_counts()
    url = f"http://{deployed.layout.target}:{PORT}/o/{workload.object_kb}"
    wanted = _served(deployed, workload)
    for got in _fetch(deployed, url):
        if got != wanted:
            raise HeadraceError(
                f"{deployed.layout.text}: the content that arrives is not that served"
            )
    _attack(deployed)
    _all_seen(deployed, before, deployed.interface_counts())
    return [
        Finding(check="path", ok=True, text="Each VNF saw the packets of the verification."),
        Finding(check="content", ok=True, text=f"{_REQUESTS} objects arrived as they were served."),
    ]


def _first_answer(deployed: ApplianceGraph, workload: Http) -> None:
    """Proxies may need a moment to find that what is behind them is up."""
    before = deployed.interface_counts()
    url = f"http://{deployed.layout.target}:{PORT}/o/{workload.object_kb}/first"
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    while True:
        try:
            deployed.ask(
                "curl", "--silent", "--fail", "--max-time", "3", "--output", "/dev/null", url
            )
            return
        except HeadraceError:
            if time.monotonic() > deadline:
                _all_seen(deployed, before, deployed.interface_counts())
                raise HeadraceError(
                    f"{deployed.layout.text}: no answer to {url} in {_ANSWER_WITHIN_S} s, though "
                    "each VNF sees packets"
                ) from None
            time.sleep(0.3)


def _served(deployed: ApplianceGraph, workload: Http) -> str:
    server = deployed.layout.of_kind("server")[0]
    done = deployed.inside(server, "sha256sum", f"/srv/objects/{workload.object_kb}.bin")
    digest = done.stdout.split(" ")[0]
    if done.returncode or digest == hashlib.sha256(b"").hexdigest():
        raise HeadraceError(
            f"workload.object_kb: got {workload.object_kb}; the servers have no such object"
        )
    return digest


def _fetch(deployed: ApplianceGraph, url: str) -> list[str]:
    """Digests of several objects; one instance of several may still be finding its upstream."""
    get = "curl --silent --fail --retry 10 --retry-delay 1 --max-time 10"
    names = " ".join(map(str, range(_REQUESTS)))
    script = f"for i in {names}; do {get} '{url}/verify-'$i | sha256sum; done"
    return [line.split(" ")[0] for line in deployed.ask("sh", "-c", script).splitlines()]


def _keep(deployed: ApplianceGraph, workload: Http) -> None:
    """Asks for each hot object, so that the first cache has it before the first trial. Which of
    several instances is asked is chance: several connections. Many are left to the warm-up."""
    caches = places(deployed.layout, deployed.supplies)
    instances = len(caches[0]) if caches else 0
    times = 4 * instances if instances > 1 else instances
    if workload.repeated and 0 < times * workload.hot_objects <= _KEPT_MAX:
        target = f"{deployed.layout.target}:{PORT}"
        urls = f"http://{target}/o/{workload.object_kb}/hot-[1-{workload.hot_objects}]"
        get = f"curl --silent --max-time 60 --output /dev/null '{urls}'"
        deployed.ask("sh", "-c", "; ".join([get] * times))


def _attack(deployed: ApplianceGraph) -> None:
    """What an IDS of the catalogue raises an alert for."""
    for leaf in deployed.layout.of_kind("leaf"):
        signature = deployed.supplies[leaf.vnf].definition.parameters.get("signature")
        if signature is not None:
            given = deployed.supplies[leaf.vnf].allocation.parameters.get("signature")
            url = f"http://{deployed.layout.target}:{PORT}{given or signature.default}"
            curl = f"curl --silent --max-time 5 --output /dev/null '{url}'"
            deployed.ask("sh", "-c", "; ".join([curl] * ATTACKS))


Interfaces = Mapping[str, Mapping[str, InterfaceCount]]


def _all_seen(
    deployed: ApplianceGraph,
    before: Interfaces,
    after: Interfaces,
    *,
    only_to_service: bool = False,
) -> None:
    """Name the first place, from the clients on, whose counters stood still."""
    for node in deployed.layout.containers:
        last = only_to_service and node.kind == "proxy"
        for name in _listening(node)[: 1 if last else None]:
            place = [n.name for n in deployed.layout.containers if n.place == node.place]
            if not any(_received(before, after, one, name) for one in place):
                raise HeadraceError(
                    f"{deployed.layout.text}: {node.name}: nothing arrives at its interface {name}"
                )
        if last:
            return


def _listening(node: ContainerNode) -> list[str]:
    return [node.mirror] if node.kind == "leaf" else [i.device for i in node.interfaces]


def _received(before: Interfaces, after: Interfaces, node: str, name: str) -> int:
    """Several instances of a place share the flows: one of them may see none."""
    if name not in after[node]:
        return 0
    return after[node][name].rx_packets - before[node][name].rx_packets
