# SPDX-License-Identifier: Apache-2.0
"""What OpenFlow's tables and an Open vSwitch's userspace datapath cannot express."""

from __future__ import annotations

from headrace.ground.engines.acl_rules import PORTS, acl_rules
from headrace.ground.engines.adapter import Work, check_sessions, check_vips
from headrace.ground.engines.openflow import RULES_MOST, matches, pieces
from headrace.ground.engines.openflow_ends import PORT_MAX, PORT_MIN
from headrace.ground.engines.routes import check_routes
from headrace.spec.chain import Node

_FUNCTIONS = ("acl", "l2fwd", "l3fwd", "lb", "nat", "null")


def check_functions(work: Work) -> None:
    """BadInput by function and parameter."""
    work.check_functions(_FUNCTIONS)
    for node in work.experiment.nodes:
        if node.nf in _CHECKS:
            _CHECKS[node.nf](work, node)


def _check_acl(work: Work, node: Node) -> None:
    work.check_given(node, "match_flags", False, "filters are 5-tuples")
    key = "rules_file" if "rules_file" in node.params else "rules"
    rules = acl_rules(node.params, work.doc)
    if len(rules) > RULES_MOST:
        raise work.refused(node, key, f"{len(rules)} rules; allowed: {RULES_MOST}")
    ranges = [ports for one in rules for ports in (one.sport, one.dport)]
    if work.experiment.study.deployment.ovs.expand or not any(map(_several, ranges)):
        return
    flows = sum(1 for one in rules for _ in matches(one, swapped=False))
    raise work.refused(
        node, key,
        f"has no port ranges without expansion of {len(rules)} rules to {flows:,} flows; allowed "
        "with `deployment: {ovs: {expand: true}}`",
    )  # fmt: skip


def _several(ports: tuple[int, int]) -> bool:
    return ports != PORTS and sum(1 for _ in pieces(*ports)) > 1


def _check_l3fwd(work: Work, node: Node) -> None:
    check_routes(work, node, each="flow")


def _check_nat(work: Work, node: Node) -> None:
    timeouts, fragments = "has timeouts of its own", "drops fragments"
    check_sessions(work, node, timeouts=timeouts, fragments=fragments)
    for key, only in (("port_min", PORT_MIN), ("port_max", PORT_MAX)):
        work.check_given(node, key, only, "keeps a source's port where it is free")
    if "seed" in node.params:
        raise work.refused(node, "seed", "draws no ports; allowed: none given")


def _check_lb(work: Work, node: Node) -> None:
    work.check_given(node, "mode", "nat", "rewrites destinations")
    for key in ("idle_timeout_s", "flows", "table_size"):
        if key in node.params:
            raise work.refused(node, key, "keeps nothing of a flow; allowed: none given")
    check_vips(work, node)


_CHECKS = {"acl": _check_acl, "l3fwd": _check_l3fwd, "nat": _check_nat, "lb": _check_lb}
