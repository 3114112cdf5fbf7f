# SPDX-License-Identifier: Apache-2.0
"""Lcores on a server as its owner has set it up, inside a guest (tests/vm/run.sh isolated): two
nodes of two cores with two threads each, and the kernel told isolcpus=2-7."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from checks import Checks, answer, namespaces, state
from placement import engines, share, workers

NODES = {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}  # as the guest was started (run.sh)
ISOLATED = [2, 3, 4, 5, 6, 7]
SPEC = """
name: {name}
chain: ['null']
deployment:
  hosting: {{kind: process, wait: adaptive, chains: {chains}}}
  hugepages: false
  memory_mb: 128
  wire: 4096
  {lcores}
workload: {{frame: [64], flows: 12}}
"""
INLINE = """
name: inline
chain: ['null', {name: second, nf: 'null'}]
deployment: {execution: pipeline, hugepages: false, memory_mb: 128, wire: 4096}
workload: {frame: [64], flows: 12}
"""
LOCAL = 0.9
SIBLINGS = [*Path("/sys/devices/system/cpu").glob("cpu[0-9]/topology/thread_siblings_list")]


def detected(checks: Checks) -> None:
    server = answer("server", "detect")
    nodes = {node["node"]: node["cpus"] for node in server["nodes"]}
    checks.equal("detect: CPUs of each node", nodes, NODES)
    checks.equal("detect: isolated", server["isolated_cpus"], ISOLATED)
    cores = sorted({file.read_text().strip() for file in SIBLINGS})
    checks.equal("threads of each core", cores, ["0-1", "2-3", "4-5", "6-7"])
    # None of the isolated ones is in this process's affinity: the kernel has taken them out.
    words = Path("/proc/self/status").read_text().split("Cpus_allowed_list:")[1].split()
    checks.equal("the kernel gives processes these by itself", words[0], "0-1")


def looked(name: str, text: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Where its engines are, and what headrace itself finds wrong with that."""
    Path(f"{name}.yaml").write_text(text)
    answered = answer("hosting", "where", f"{name}.yaml")
    return engines(answered), answered["astray"]


def on(checks: Checks, what: str, engine: dict[str, Any], lcores: list[int]) -> None:
    """Its workers may run there and nowhere else, and did; its memory is on that node."""
    threads = workers(engine)
    checks.equal(f"{what} may run on", sorted({c for t in threads for c in t["allowed"]}), lcores)
    checks.that(f"{what} ran there", {t["cpu"] for t in threads} <= set(lcores), threads)
    nodes = {node for node, cpus in NODES.items() if set(cpus) & set(lcores)}
    local = share(engine, nodes)
    checks.that(f"{what}: its memory is on node {nodes}", local >= LOCAL, f"{local:.1%}")


def hosted(checks: Checks) -> None:
    """Traffic has the first isolated CPU, and nobody that core's other thread; VNFs have isolated
    ones, of other cores, the traffic's node first."""
    expected = {"auto": ("", 2, [4, 6]), "told": ("lcores: {traffic: [4]}", 4, [6, 2])}
    for name, (lcores, traffic, vnfs) in expected.items():
        there, astray = looked(name, SPEC.format(name=name, chains=2, lcores=lcores))
        checks.equal(f"{name}: headrace's own verdict", astray, [])
        on(checks, f"{name}: traffic", there["host"], [traffic])
        for i, lcore in enumerate(vnfs):
            on(checks, f"{name}: {i + 1}. VNF", there[f"vnf{i + 1}.1"], [lcore])


def inline(checks: Checks) -> None:
    """Segments of the tester's engine are on isolated CPUs, the chain's on other cores than those
    of traffic. Ordinary memory is one node's, the generator's: of segments on the other one
    headrace says so."""
    there, astray = looked("inline", INLINE)
    held = {
        name: {cpu for thread in workers(one) for cpu in thread["allowed"]}
        for name, one in there.items()
    }
    nodes = {name: node for name, cpus in held.items() for node in NODES if cpus & {*NODES[node]}}
    far = sorted(name for name, node in nodes.items() if node != nodes["generator"])
    checks.equal("inline: who is said to be far", sorted(x.split(":")[0] for x in astray), far)
    checks.that("inline: all on isolated CPUs", set().union(*held.values()) <= {*ISOLATED}, held)
    traffic = {cpu // 2 for name in ("generator", "sink") for cpu in held[name]}
    chain = {cpu // 2 for name, cpus in held.items() if name not in ("generator", "sink")
             for cpu in cpus}  # fmt: skip
    checks.that("inline: chain and traffic share no core", not traffic & chain and chain, held)


def main() -> int:
    checks = Checks()
    detected(checks)
    hosted(checks)
    inline(checks)
    checks.equal("left behind: namespaces, state", [namespaces(), state()], [[], []])
    ours = subprocess.run(["pgrep", "-c", "headrace-engine"], capture_output=True, text=True)
    checks.equal("left behind: engines", ours.stdout.strip(), "0")
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
