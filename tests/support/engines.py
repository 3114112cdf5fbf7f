# SPDX-License-Identifier: Apache-2.0
"""Studies of one chain on several engines, between the ends of two cables in a namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from headrace.record.rows import Trial
from support.lab import environment, headrace, state_left
from support.netns import Lan

SPEC = """
name: engines
chain: {chain}
testbed:
  ports:
    left: {{device: "{kind}:hrleft"}}
    right: {{device: "{kind}:hrright"}}
    in: {{device: "{kind}:hrin"}}
    out: {{device: "{kind}:hrout"}}
  tester: [left, right]
  chain: [in, out]
deployment: {{engine: [headrace, {engines}], hugepages: false, memory_mb: 256}}
workload: {{direction: {direction}, headers: {{dst_port: 53}}}}
warmup: 0
measure: {{loads: [2k], trial: 0.3, losses: unintended}}
"""
RULES = """
      rules:
        - {action: permit, proto: udp, dport: [53]}
        - {action: deny, src: 198.18.0.0/17}
        - {action: permit, proto: tcp, sport: [1024, 65535], dport: [80, 443]}
        - {action: permit, dst: 10.0.0.0/8}
"""
ROUTER = f"""
  - acl: {RULES}
  - l3fwd:
      routes: [{{prefix: 198.18.0.0/15}}, {{prefix: 10.0.0.0/8, next_hop: 1}}]
      next_hops: [{{}}, {{dst_mac: "02:00:00:00:00:0a"}}]
"""


def spec_of(chain: str, kind: str, direction: str, engines: str = "nftables, xdp") -> str:
    return SPEC.format(chain=chain, kind=kind, direction=direction, engines=engines)


def fields(lan: Lan, namespace: str) -> dict[str, str]:
    """What steers and polls its interfaces."""
    files = "/sys/class/net/hr*/threaded /sys/class/net/hr*/queues/rx-0/rps_cpus"
    lines = lan.inside(namespace, "sh", "-c", f"grep -H . {files}").splitlines()
    return dict(line.split(":", 1) for line in lines)


def interfaces(lan: Lan, namespace: str) -> dict[str, tuple[str, str]]:
    """Their MAC addresses, and whether they are up."""
    links = json.loads(lan.inside(namespace, "ip", "-j", "link"))
    return {one["ifname"]: (one["address"], one["operstate"]) for one in links}


def run(lan: Lan, folder: Path, engine: Path, spec: str, fault: str | None = None) -> None:
    """`fault`: what a program does before it is `headrace`."""
    namespace = lan.namespace("e")
    for one, other in (("hrleft", "hrin"), ("hrright", "hrout")):
        lan.veth((namespace, one), (namespace, other))
    before = interfaces(lan, namespace), fields(lan, namespace)
    (folder / "spec.yaml").write_text(spec)
    arguments = ("run", "spec.yaml", "--out", "b")
    if fault is None:
        done = headrace(*arguments, folder=folder, engine=engine, timeout=600, netns=namespace)
    else:
        program = fault + "from headrace.__main__ import main\nmain()\n"
        done = subprocess.run(
            ["ip", "netns", "exec", namespace, sys.executable, "-c", program, *arguments],
            cwd=folder, env=environment(folder, engine), capture_output=True, text=True,
            timeout=600,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert state_left(folder) == []
    assert (interfaces(lan, namespace), fields(lan, namespace)) == before


def whole(trial: Trial, intended: int) -> bool:
    """None was lost, and so many were sent, but for those that the source's lcore was kept from
    sending in time: the trial says how many. What others counted is held against what was sent."""
    left = intended - trial.sent
    return not trial.lost and 0 <= left == trial.audit.unsent < intended / 2


TRANSLATED = """
  - nat:
      pool: [203.0.113.1, 203.0.113.2]
      inside: [198.18.0.0/16, 10.0.0.0/8]
      static: [{protocol: udp, inside: 198.18.0.7, inside_port: 53,
                outside: 203.0.113.1, outside_port: 53}]
  - lb:
      vips:
        - {address: 192.0.2.80, port: 80, backends: [{address: 10.1.0.1, port: 8080, count: 5},
                                                     {address: 10.1.1.1, weight: 2}]}
  - l2fwd
"""
