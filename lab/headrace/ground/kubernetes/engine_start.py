# SPDX-License-Identifier: Apache-2.0
"""Engines in pods: where their files are, and how a pod starts its own where no lab does."""

from __future__ import annotations

from headrace.ground.kubernetes.cut import PlanCut

OWN = "/run/headrace"  # a folder of the pod's own, in memory
PLAN, CONTROL = f"{OWN}/plan.json", f"{OWN}/control.sock"
GIVEN = "/given"  # files, read-only, in each pod that starts its engine itself
_UP_S = 180  # until all links of all pods are up
# The control socket answers once the engine runs; a port is up once its peer is there.
_UP = (
    f'echo \'{{"cmd": "read"}}\' | socat -t 5 - UNIX-CONNECT:{CONTROL} | '
    "jq -e '.ok and all(.links[] | select(.type == \"port\"); .up)'"
)


def plan_key(pod: str) -> str:
    """What a pod's plan is called among the files that pods are given."""
    return f"{pod}.json"


def start(pod: str, parts: PlanCut) -> str:
    """A script of the pod's shell. Which lcore a pod has is known there only: the last of its CPUs,
    as where a lab starts it. A socket that a former pod left has nobody behind it."""
    own = [wire.socket for wire in parts.of(pod) if wire.side is None and parts.serves(pod, wire)]
    called = [
        wire.socket for wire in parts.of(pod) if wire.side is None and not parts.serves(pod, wire)
    ]
    return "\n".join([
        f"rm -f {' '.join([CONTROL, *own])}",
        *(f"until [ -S {socket} ]; do sleep 0.1; done" for socket in called),
        "cpu=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\\([0-9]*\\)$/\\1/p' /proc/self/status)",
        f"jq --argjson cpu \"$cpu\" '.segments[].cpus = [$cpu]' {GIVEN}/{plan_key(pod)} > {PLAN}",
        f"exec headrace-engine --plan {PLAN} --control {CONTROL}",
    ])  # fmt: skip


def probe() -> dict[str, object]:
    """A pod is ready once its engine runs and all its links are up. It is asked until then only:
    what is run in a pod has its CPU, on which the engine polls."""
    return {
        "exec": {"command": ["sh", "-ec", _UP]},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": _UP_S,
    }
