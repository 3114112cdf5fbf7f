# SPDX-License-Identifier: Apache-2.0
"""After a trial: do the appliances' own counters say that they did their work?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.ground.appliances.addressing import ContainerNode
from headrace.ground.appliances.caches import judge_hits
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.reachable import ATTACKS
from headrace.record.verdict import Finding
from headrace.spec.workload import AnyWorkload

_EVEN = 0.5  # the least loaded of a round robin's servers, against the most loaded
_COUNTABLE = 10  # connections below which shares are chance
Values = Mapping[str, int]
Counters = Mapping[str, Values]


@dataclass(frozen=True)
class Word:
    """What one appliance says: what it counted in the trial, and since it was started."""

    node: ContainerNode
    new: Values
    all: Values
    deployed: ApplianceGraph
    workload: AnyWorkload

    def say(self, check: str, ok: bool, value: float, text: str) -> Finding:
        name = self.node.name
        return Finding(check=f"{name}: {check}", ok=ok, value=value, text=f"{name} {text}")


def judge(
    deployed: ApplianceGraph, before: Counters, after: Counters, workload: AnyWorkload
) -> list[Finding]:
    findings = judge_hits(deployed, workload, grown(before, after))
    for node in deployed.layout.containers:
        check = _check(node, workload)
        if check is not None and node.name in after:
            all_ = after[node.name]
            new = grown(before, after)[node.name]
            finding = check(Word(node, new, all_, deployed, workload))
            if finding is not None:
                findings.append(finding)
    return findings


def grown(before: Counters, after: Counters) -> dict[str, dict[str, int]]:
    return {
        name: {key: value - before[name].get(key, 0) for key, value in values.items()}
        for name, values in after.items()
    }


_Check = Callable[[Word], Finding | None]


def _check(node: ContainerNode, workload: AnyWorkload) -> _Check | None:
    if node.kind == "server":
        return _server if workload.kind == "http" else None
    if node.vnf in _OF_REQUESTS and workload.kind not in ("http", "dns"):
        return None
    return _CHECKS.get(node.vnf)


def _nat(word: Word) -> Finding:
    count = word.all.get("connections_packets", 0)
    return word.say("translated", count > 0, count, f"translated {count} connections.")


def _firewall(word: Word) -> Finding:
    count, refused = word.new.get("accepted_packets", 0), word.new.get("denied_packets", 0)
    count += word.new.get("connections_packets", 0)
    text = f"passed {count} packets and refused {refused}."
    return word.say("accepted", count > 0, count, text)


def _balancer(word: Word) -> Finding | None:
    shares = [v for k, v in sorted(word.all.items()) if k.startswith("server_")]
    if len(shares) < 2:
        return None
    given = word.deployed.supplies[word.node.vnf].allocation.parameters.get("balance", "roundrobin")
    least = min(shares) / max(1, *shares)
    ok = least >= _EVEN if given == "roundrobin" and sum(shares) >= _COUNTABLE else min(shares) > 0
    text = f"gave its servers {', '.join(map(str, shares))} connections ({given})."
    return word.say("spread", ok, least, text)


def _ids(word: Word) -> Finding:
    alerts = word.all.get("alerts", 0)
    # Its statistics come once a second: of the deployment, not of a trial that is as short.
    seen, lost = word.all.get("packets", 0), word.all.get("dropped", 0)
    text = f"raised {alerts} alerts for {ATTACKS} attacks, saw {seen} packets so far, lost {lost}."
    return word.say("alerts", alerts >= 1, alerts, text)


def _server(word: Word) -> Finding | None:
    """Behind VNFs that hide the clients, every request comes from the last of them."""
    stages = word.deployed.layout.of_kind("routed", "proxy")
    hiding = [n for n in stages if word.deployed.supplies[n.vnf].definition.splits]
    if not hiding:
        return None
    last = max(node.interface("down").lan for node in hiding)
    those = [n for n in hiding if n.interface("down").lan == last]
    addresses = [n.interface("down").address for n in those]
    total = word.all.get("requests", 0)
    rightly = sum(word.all.get(f"requests_from_{address}", 0) for address in addresses)
    text = (
        f"saw {total} requests, {total - rightly} of them not from {', '.join(addresses)} "
        f"({those[0].vnf})."
    )
    return word.say("addresses", rightly == total, total - rightly, text)


def _counted(check: str, counter: str, text: str) -> _Check:
    """A VNF that did something at all in the trial."""

    def find(word: Word) -> Finding:
        count = word.new.get(counter, 0)
        return word.say(check, count > 0, count, text.format(count))

    return find


_OF_REQUESTS = ("l7-cache", "l4-lb", "proxy", "compression", "anti-virus", "wan-optimiser", "dns",
                "ids")  # fmt: skip
_CHECKS: Mapping[str, _Check] = {
    "nat": _nat,
    "ip-firewall": _firewall,
    "l7-cache": _counted("requests", "requests", "was asked {} times."),
    "l4-lb": _balancer,
    "ids": _ids,
    "headrace": _counted("forwarded", "out", "sent on {} packets."),
    "router": _counted("forwarded", "down_tx_packets", "sent {} packets on."),
    "traffic-shaper": _counted("shaped", "sent_packets", "shaped {} packets."),
    "vpn": _counted("tunnelled", "tunnel_tx_packets", "sent {} packets into the tunnel."),
    "monitor": _counted("seen", "packets", "saw {} packets."),
    "proxy": _counted("requests", "requests", "answered {} requests."),
    "compression": _counted("requests", "requests", "answered {} requests."),
    "wan-optimiser": _counted("requests", "requests", "answered {} requests."),
    "anti-virus": _counted("scanned", "scanned", "looked into {} objects."),
    "dns": _counted("answers", "answers", "gave {} answers."),
}
