# SPDX-License-Identifier: Apache-2.0
"""What VPP's graph of nodes, whose order is fixed, cannot express."""

from __future__ import annotations

from headrace.ground.engines.acl_rules import acl_rules
from headrace.ground.engines.adapter import Work, check_vips
from headrace.ground.engines.routes import check_routes
from headrace.ground.engines.translation import backends_of
from headrace.spec.chain import Node
from headrace.spec.workload import Packets

_FUNCTIONS = ("acl", "l2fwd", "l3fwd", "lb", "nat", "null")
_SCTP = 132
_PORT_MIN, _PORT_MAX = 1024, 65535  # nat44-ed's
WEIGHT_MOST = 100
# What a nat's timeouts are called here, and in `set nat timeout`.
TIMEOUTS = {
    "udp_timeout_s": "udp", "established_timeout_s": "tcp-established",
    "transitory_timeout_s": "tcp-transitory", "icmp_timeout_s": "icmp",
}  # fmt: skip


def check_chain(work: Work) -> None:
    """BadInput by function and parameter."""
    work.check_ports(("memif", "af_packet"), "has drivers of its own")
    work.check_functions(_FUNCTIONS)
    _check_bed(work)
    _check_order(work)
    for node in work.experiment.nodes:
        if node.nf in _CHECKS:
            _CHECKS[node.nf](work, node)


def _check_bed(work: Work) -> None:
    work.check_no_mtu("vpp")
    bed = work.experiment.study.testbed
    assert bed is not None
    if len(set(bed.chain)) < 2:
        raise work.doc.error(("testbed", "chain"), "vpp: one port; allowed: two, in and out")
    if len({to.kind for pair in work.ports.values() for to in pair}) > 1:
        problem = "vpp: ports of two kinds; allowed: both memif, or both af_packet"
        raise work.doc.error(("testbed", "chain"), problem)


def _check_order(work: Work) -> None:
    nodes = work.experiment.nodes
    names = [node.nf for node in nodes]
    for node in nodes:
        several = {"acl": ["acl"], "l3fwd": ["l3fwd"], "nat": ["nat", "lb"], "lb": ["nat", "lb"]}
        if sum(names.count(one) for one in several.get(node.nf, ())) > 1:
            alike = " or ".join(several[node.nf])
            raise work.refused(node, "", f"a second {alike} has no place; allowed: one")
    if "l3fwd" not in names:
        for node in nodes:
            if node.nf in ("nat", "lb"):
                why = "routes what it translates; allowed: an l3fwd behind it"
                raise work.refused(node, "", why)
        return
    if not isinstance(work.experiment.workload, Packets):
        raise work.doc.error(
            ("workload", "kind"),
            "vpp: a router's port takes frames to its own MAC address; allowed with l3fwd: packets",
        )
    router = names.index("l3fwd")
    for node in nodes:
        if node.nf == "l2fwd":
            why = "its router sets MAC addresses; allowed: l2fwd without l3fwd"
            raise work.refused(node, "", why)
    for node in nodes[router:]:
        if node.nf in ("nat", "lb"):
            raise work.refused(node, "", "translates before it routes; allowed: in front of l3fwd")


def _check_acl(work: Work, node: Node) -> None:
    work.check_given(node, "match_flags", False, "filters are 5-tuples")
    work.check_given(node, "fragments", "match", "has no rules for fragments alone")
    if not any(one.nf == "l3fwd" for one in work.experiment.nodes):
        work.check_given(node, "non_ip", "permit", "looks at IP only")
    key = "rules_file" if "rules_file" in node.params else "rules"
    for one in acl_rules(node.params, work.doc):
        if one.proto == 0:
            raise work.refused(node, key, "protocol 0 is any; allowed: 1 to 255")
        if one.names_ports and one.proto == _SCTP:
            raise work.refused(node, key, "sees no ports of SCTP; allowed: those of TCP and UDP")
    reflects = work.experiment.study.deployment.vpp.reflect
    if reflects and "reverse" in work.ports and node.params.get("reverse") != "permit":
        why = "with vpp.reflect answers to what was permitted are, too; allowed: permit"
        raise work.refused(node, "reverse", why, value=node.params.get("reverse", "match"))


def _check_l3fwd(work: Work, node: Node) -> None:
    hops = check_routes(work, node, each="route")
    work.check_given(node, "verify_checksum", True, "verifies header checksums")
    work.check_given(node, "martians", "drop", "has no routes to them")
    work.check_given(node, "not_ip", "drop", "routes IP only")
    if len({one.src_mac for one in hops}) > 1:
        why = "a port has one MAC address; allowed: the same src_mac in each"
        raise work.refused(node, "next_hops", why)


def _check_nat(work: Work, node: Node) -> None:
    for key in ("mapping", "filtering"):
        work.check_given(node, key, "endpoint-dependent", "sessions are known by both endpoints")
    for key in TIMEOUTS:
        seconds = node.params.get(key, 1)
        if seconds != int(seconds) or seconds < 1:
            why = "has whole seconds; allowed: 1 or more of them"
            raise work.refused(node, key, why, value=seconds)
    for key in ("datagrams", "held_fragments", "fragment_timeout_s"):
        if key in node.params:
            raise work.refused(node, key, "reassembles by itself; allowed: none given")
    for key, only in (("port_min", _PORT_MIN), ("port_max", _PORT_MAX)):
        work.check_given(node, key, only, "has its own range of ports")
    if "seed" in node.params:
        raise work.refused(node, "seed", "draws ports by itself; allowed: none given")
    _check_one_way(work, node, "what sessions get back")


def _check_one_way(work: Work, node: Node, lets_in: str) -> None:
    if "reverse" in work.ports:
        why = f"lets in {lets_in}, and no other traffic; allowed: direction forward"
        raise work.refused(node, "", why)


def _check_lb(work: Work, node: Node) -> None:
    _check_one_way(work, node, "what backends say")
    work.check_given(node, "mode", "nat", "rewrites destinations here")
    work.check_given(node, "other", "pass", "routes what is for no VIP")
    if "table_size" in node.params:
        raise work.refused(node, "table_size", "has tables of its own; allowed: none given")
    seconds = node.params.get("idle_timeout_s", 1)
    if seconds != int(seconds) or seconds < 1:
        why = "has whole seconds; allowed: 1 or more of them"
        raise work.refused(node, "idle_timeout_s", why, value=seconds)
    check_vips(work, node)
    for vip in node.params["vips"]:
        own = str(vip["address"])
        if vip.get("protocol", "any") != "udp" or not vip.get("port"):
            why = f"{own}: its nat4 translates UDP of one port; allowed: protocol udp, and a port"
            raise work.refused(node, "vips", why)
        backends = list(backends_of(vip))
        if len({port or vip["port"] for _, port in backends}) > 1:
            why = f"{own}: has one port for all backends; allowed: the same in each"
            raise work.refused(node, "vips", why)
        if len({address for address, _ in backends}) < len(backends):
            raise work.refused(node, "vips", f"{own}: a backend is there twice; allowed: once")
        if any(one.get("weight", 1) > WEIGHT_MOST for one in vip.get("backends", ())):
            why = f"{own}: has weights in per cent; allowed: up to {WEIGHT_MOST}"
            raise work.refused(node, "vips", why)


_CHECKS = {"acl": _check_acl, "l3fwd": _check_l3fwd, "lb": _check_lb, "nat": _check_nat}
