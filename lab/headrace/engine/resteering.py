# SPDX-License-Identifier: Apache-2.0
"""What flows are steered by, from the functions that may change it."""

from __future__ import annotations

from headrace.engine.describe import Description
from headrace.spec.study import Experiment

_FIELDS = {"src_ip", "dst_ip", "src_port", "dst_port", "proto"}  # pkt_flow_hash, engine/core/pkt.c


def resteering(experiment: Experiment, description: Description) -> frozenset[str]:
    """Lists the functions behind which a flow may have another one of as many replicas: those that
    write a field of its hash. Where each segment hands flows out in turn, all of them."""
    even = experiment.study.deployment.steer == "even"
    return frozenset(
        node.name
        for node in experiment.nodes
        if even or _FIELDS & set(description.nfs[node.nf]["writes"])
    )
