# SPDX-License-Identifier: Apache-2.0
"""A chain as XDP programs, in the drivers of the interfaces that its packets come to."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.ways import Direction
from headrace.errors import HeadraceError
from headrace.ground.contract import Site
from headrace.ground.engines.acl_rules import AclRule, Network, acl_rules
from headrace.ground.engines.adapter import MACS, Declared, Work, check_sessions, check_vips, macs
from headrace.ground.engines.routes import check_routes, next_hops, routes
from headrace.ground.engines.steering import steer
from headrace.ground.engines.translation import SEED, backends_of, with_choice
from headrace.ground.wired.devices import make_ready
from headrace.ground.wired.external import Commands
from headrace.host.ledger import Ledger
from headrace.host.programs import find_beside_tracer
from headrace.spec.chain import Node
from headrace.spec.testbed import ExternalDut

_FUNCTIONS = ("acl", "l2fwd", "l3fwd", "lb", "nat", "null")
_KINDS = ("af_xdp", "af_packet")
# trace/xdp/shared.h, chain.h
_RULES_MOST, _HOPS_MOST, _FUNCTIONS_MOST, _POOL_MOST, _INSIDE_MOST = 8192, 65536, 30, 64, 16
_ANSWER_S = 5.0
_BESIDE = (
    "The kernel takes and gives packets by its own drivers: no port of DPDK's is on its way.",
    "Each function is a program that reads the headers again; headrace reads them once for all.",
    "An acl has no cache of flows: each packet is classified.",
    "`timed` packets took `timed-ns` in its programs (BPF run time, taken a sixteenth of the "
    "time); what the drivers do is not in it.",
)
_TRANSLATED = (
    "A nat ends the session that was used least lately when its map is full, and none before; "
    "headrace ends them by timeouts, and refuses new ones when it is full.",
    "A nat follows no TCP states, and drops fragments, ICMP errors and what is to turn back "
    "(hairpinning).",
)
_BALANCED = (
    "A lb has no table of flows: its Maglev tables stay as they are. headrace looks each flow up.",
)


@dataclass(frozen=True)
class XdpConsole:
    """headrace-xdp answers whoever connects with its counters."""

    path: Path

    def forwards(self) -> bool:
        return self.path.is_socket()

    def counters(self) -> dict[str, int]:
        text = b""
        try:
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(_ANSWER_S)
                asked.connect(str(self.path))
                while part := asked.recv(1 << 16):
                    text += part
            counters: dict[str, int] = json.loads(text)
        except (OSError, ValueError) as error:
            raise HeadraceError(f"headrace-xdp: says no counters: {error}") from None
        return counters


@dataclass(frozen=True)
class Xdp:
    """`generic`: by the kernel's generic mode, which needs nothing of a driver."""

    work: Work
    generic: bool

    @property
    def beside(self) -> tuple[str, ...]:
        lcores = ", ".join(map(str, self.work.cpus))
        how = ("in generic mode, by receive packet steering" if self.generic else
               "in the drivers' mode, by threads that poll (threaded NAPI)")  # fmt: skip
        choosing = {node.nf for node in with_choice(self.work.experiment)}
        more = (*(_TRANSLATED if "nat" in choosing else ()),
                *(_BALANCED if "lb" in choosing else ()))  # fmt: skip
        return (*_BESIDE, *more, f"Its programs run on lcore {lcores}, {how}.")

    @property
    def declared(self) -> tuple[Declared, ...]:
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        return (str(find_beside_tracer("headrace-xdp")),)

    def commands(self, site: Site, ledger: Ledger) -> Commands:
        folder = site.state.path
        devices = {to.name: to for pair in self.work.ports.values() for to in pair}
        make_ready(devices, ledger)
        for name in devices if self.generic else ():  # otherwise headrace-xdp has threads poll
            steer(name, self.work.cpus, ledger)
        path = folder / "xdp.sock"
        path.unlink(missing_ok=True)
        file = folder / "xdp.json"
        file.write_text(json.dumps(self.configuration(folder, path), indent=1) + "\n")
        return Commands(
            ExternalDut(start=(*self.programs, str(file))),
            place="deployment.engine: xdp",
            console=XdpConsole(path),
        )

    def configuration(self, folder: Path, path: Path) -> dict[str, Any]:
        """What headrace-xdp reads; rules and routes are in files of this folder."""
        chains = [
            {
                "direction": direction, "enter": enter.name, "leave": leave.name,
                "functions": [
                    {"function": node.nf, "name": node.name, **given}
                    for node in self.work.met(direction)
                    if (given := self._given(node, direction, folder)) is not None
                ],
            }
            for direction, (enter, leave) in self.work.ports.items()
        ]  # fmt: skip
        return {"generic": self.generic, "cpus": self.work.cpus, "socket": str(path),
                "chains": chains}  # fmt: skip

    def _given(self, node: Node, direction: Direction, folder: Path) -> dict[str, Any] | None:
        """None where it does nothing."""
        params, doc = node.params, self.work.doc
        if node.nf == "l2fwd":
            return dict(macs(node, direction))
        if node.nf == "acl":
            way = params.get("reverse", "match") if direction == "reverse" else "match"
            file = folder / f"{node.name}-{direction}.rules"
            _write(file, _rule_lines(acl_rules(params, doc), swapped=way == "swap"))
            given = _some(params, "default", "non_ip", "fragments")
            return None if way == "permit" else {"rules": str(file), **given}
        if node.nf == "l3fwd":
            file = folder / f"{node.name}.routes"
            _write(file, (f"{one.prefix} {one.next_hop}" for one in routes(params, doc)))
            hops = [{key: getattr(one, key) for key in MACS} for one in next_hops(params)]
            return {
                "routes": str(file), "next_hops": hops,
                "verify_checksum": params.get("verify_checksum", True),
                **_some(params, "martians", "not_ip"),
            }  # fmt: skip
        if node.nf == "nat":
            return {"outward": direction == "forward", **_nat_given(params)}
        if node.nf == "lb":
            return {"forward": direction == "forward", **_lb_given(params)}
        return None


def _lb_given(params: Mapping[str, Any]) -> dict[str, Any]:
    vips = []
    for vip in params["vips"]:
        weights = [one.get("weight", 1) for one in vip.get("backends", ())
                   for _ in range(one.get("count", 1))]  # fmt: skip
        backends = [
            {"address": address, "port": port, "weight": weight}
            for (address, port), weight in zip(backends_of(vip), weights, strict=True)
        ]
        vips.append({"address": str(vip["address"]).partition("/")[0], "port": vip.get("port", 0),
                     "protocol": vip.get("protocol", "any"), "backends": backends})  # fmt: skip
    return {"vips": vips, "table_size": params.get("table_size", 65537), **_some(params, "other")}


def _nat_given(params: Mapping[str, Any]) -> dict[str, Any]:
    inside = (ipaddress.IPv4Network(str(one), strict=False) for one in params.get("inside", ()))
    return {
        "pool": [str(one) for one in params["pool"]],
        "inside": [[str(one.network_address), one.prefixlen] for one in inside],
        "static": params.get("static", []), "seed": params.get("seed") or SEED,
        "port_min": params.get("port_min", 1024), "port_max": params.get("port_max", 65535),
        "sessions": params.get("sessions", 131072),
    }  # fmt: skip


def _some(params: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: params[key] for key in keys if key in params}


def _write(file: Path, lines: Iterable[str]) -> None:
    with file.open("w") as to:
        to.writelines(f"{line}\n" for line in lines)


def _rule_lines(rules: Iterable[AclRule], swapped: bool) -> Iterable[str]:
    for rule in rules:
        ends = (_prefix(rule.src), _ports(rule.sport)), (_prefix(rule.dst), _ports(rule.dport))
        (src, sport), (dst, dport) = reversed(ends) if swapped else ends
        proto = -1 if rule.proto is None else rule.proto
        yield f"{rule.action} {src} {dst} {sport} {dport} {proto}"


def _prefix(prefix: Network | None) -> str:
    return "*" if prefix is None else str(prefix)


def _ports(ports: tuple[int, int]) -> str:
    return f"{ports[0]}-{ports[1]}"


def xdp(work: Work) -> Xdp:
    """BadInput where a function or parameter cannot be expressed."""
    work.check_functions(_FUNCTIONS)
    work.check_ports(_KINDS, "has interfaces of the kernel's")
    nodes = work.experiment.nodes
    if len(nodes) > _FUNCTIONS_MOST:
        raise work.refused(
            nodes[_FUNCTIONS_MOST], "", f"a tail call each; allowed: {_FUNCTIONS_MOST} functions"
        )
    for node in nodes:
        if node.nf == "acl":
            _check_acl(work, node)
        elif node.nf == "l3fwd":
            _check_l3fwd(work, node)
        elif node.nf == "nat":
            _check_nat(work, node)
        elif node.nf == "lb":
            _check_lb(work, node)
    kinds = {to.kind for pair in work.ports.values() for to in pair}
    return Xdp(work, generic="af_packet" in kinds)


def _check_acl(work: Work, node: Node) -> None:
    work.check_given(node, "match_flags", False, "filters are 5-tuples")
    if (count := len(acl_rules(node.params, work.doc))) > _RULES_MOST:
        key = "rules_file" if "rules_file" in node.params else "rules"
        raise work.refused(node, key, f"{count} rules; allowed: {_RULES_MOST}")


def _check_l3fwd(work: Work, node: Node) -> None:
    hops = check_routes(work, node, each="route")
    if len(hops) > _HOPS_MOST:
        raise work.refused(node, "next_hops", f"{len(hops)}; allowed: {_HOPS_MOST}")


def _check_nat(work: Work, node: Node) -> None:
    timeouts, fragments = "sessions have no timeouts", "holds no fragments"
    check_sessions(work, node, timeouts=timeouts, fragments=fragments)
    for key, most in (("pool", _POOL_MOST), ("inside", _INSIDE_MOST)):
        if (count := len(node.params.get(key, ()))) > most:
            raise work.refused(node, key, f"{count}; allowed: {most}")


def _check_lb(work: Work, node: Node) -> None:
    work.check_given(node, "mode", "nat", "rewrites destinations")
    if "idle_timeout_s" in node.params:
        raise work.refused(node, "idle_timeout_s", "keeps no flows; allowed: none given")
    check_vips(work, node)
