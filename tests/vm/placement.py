# SPDX-License-Identifier: Apache-2.0
"""Placement on two NUMA nodes, inside a guest (tests/vm/run.sh placement): where the threads and
pages of VNFs really are, by /proc, for each of the placements of Wang et al. 2016; and where
packets are in those of Sieber et al. 2017, whose figures 3 and 5 are run on them; and which
lcores take the flows where several forward. `placement.py PART...` runs these parts only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from checks import OTHER, PF, Checks, answer, headrace, interface, load, namespaces, state

NODES = {0: [0, 1], 1: [2, 3]}  # as the guest was started (run.sh)
ALL = [1, 2, 3]  # without the tester's
VNFS = {"numa-aware": 3, "worst": 2, "random": 2, "explicit": 2}
EXPLICIT = [3, 1]
LOCAL = 0.9


SPREAD = """
name: spread
deployment:
  hugepages: false
  memory_mb: 256
  hosting: {kind: offload, vnfs: 4, routes: 16, forwarders: 3, modes: [bare-metal, offload]}
workload: {flows: 256}
warmup: 0
measure: {loads: [500], trial: 1 s, drain: 5.0}
"""


def spec(name: str, hosting: str, network: str = "network: veb") -> str:
    file = Path(f"{name}.yaml")
    file.write_text(
        f"""
name: {name}
chain: ['null']
deployment:
  hosting: {{kind: process, wait: adaptive, {hosting}}}
  {network}
  hugepages: false
  memory_mb: 128
  wire: 4096
  lcores: {{traffic: [0], chain: {ALL}}}
workload: {{frame: [64], flows: 12}}
"""
    )
    return str(file)


def node_of(cpu: int) -> int:
    return next(node for node, cpus in NODES.items() if cpu in cpus)


def described(checks: Checks) -> None:
    """`headrace server detect` against the guest's own command line."""
    server = answer("server", "detect")
    nodes = {node["node"]: node for node in server["nodes"]}
    checks.equal("detect: CPUs of each node", {n: one["cpus"] for n, one in nodes.items()}, NODES)
    checks.equal("detect: distances", [nodes[n]["distances"] for n in (0, 1)], [[10, 21], [21, 10]])
    checks.equal("detect: sockets", server["sockets"], 2)
    nics = {nic["address"]: nic for nic in server["nics"]}
    checks.equal("detect: nodes of the NICs", [nics[a]["node"] for a in (PF, OTHER)], [0, 1])
    printed = headrace("hosting", "capacity", "--here").stdout
    checks.equal("capacity: by the lcores of each NIC's node", printed.splitlines()[0], "4 VNFs")
    checks.that("capacity: names the nodes", "node 1): 2, limited by lcores of node 1" in printed)


def engines(answered: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {engine["name"]: engine for engine in answered["engines"]}


def workers(engine: dict[str, Any]) -> list[dict[str, Any]]:
    return [thread for thread in engine["threads"] if thread["works"]]


def share(engine: dict[str, Any], nodes: Iterable[int]) -> float:
    kb = {int(node): size for node, size in engine["kb"].items()}
    return sum(kb.get(node, 0) for node in nodes) / (sum(kb.values()) or 1)


def pinned(checks: Checks, name: str, engine: dict[str, Any], lcore: int) -> None:
    [worker] = workers(engine)
    vnf = f"{name}: {engine['name']}"
    checks.equal(f"{vnf} may run on", worker["allowed"], [lcore])
    checks.equal(f"{vnf} ran on", worker["cpu"], lcore)
    local = share(engine, [node_of(lcore)])
    checks.that(f"{vnf}: its memory is on node {node_of(lcore)}", local >= LOCAL, f"{local:.1%}")
    checks.that(f"{vnf}: it has some", sum(engine["kb"].values()) > 8 << 10, engine["kb"])


def looked(checks: Checks, name: str, hosting: str, network: str = "network: veb") -> Any:
    answered = answer("hosting", "where", spec(name, hosting, network))
    checks.equal(f"{name}: headrace's own verdict", answered["astray"], [])
    return answered


def placed(checks: Checks) -> None:
    """The NIC is played by lcore 0: node 0 is near, node 1 is the remote one."""
    expected = {"numa-aware": [1, 2, 3], "worst": [2, 3], "explicit": EXPLICIT}
    for placement, lcores in expected.items():
        told = f", lcores: {EXPLICIT}" if placement == "explicit" else ""
        answered = looked(
            checks, placement, f"placement: {placement}, chains: {VNFS[placement]}{told}"
        )
        checks.equal(f"{placement}: the NIC's node", answered["nic_node"], 0)
        there = engines(answered)
        for i, lcore in enumerate(lcores):
            pinned(checks, placement, there[f"vnf{i + 1}.1"], lcore)
        pinned(checks, placement, there["host"], 0)


def left_to_the_scheduler(checks: Checks) -> None:
    there = engines(looked(checks, "random", f"placement: random, chains: {VNFS['random']}"))
    for i in range(VNFS["random"]):
        engine = there[f"vnf{i + 1}.1"]
        [worker] = workers(engine)
        checks.equal(f"random: {engine['name']} may run on", worker["allowed"], ALL)


def real_nic(checks: Checks) -> None:
    """Near and far are told by the real NIC's node, not by the tester's lcore."""
    pf = interface(OTHER)
    network = f"network: sriov\n  pf: {pf}"
    for placement, lcore in (("numa-aware", 2), ("worst", 1)):
        answered = looked(checks, f"nic-{placement}", f"placement: {placement}", network)
        checks.equal(f"nic on node 1, {placement}: its node", answered["nic_node"], 1)
        pinned(checks, f"nic on node 1, {placement}", engines(answered)["vnf1.1"], lcore)


def refused(checks: Checks) -> None:
    text = Path(spec("near", "placement: worst")).read_text().replace(f"chain: {ALL}", "chain: [1]")
    Path("near.yaml").write_text(text)
    done = headrace("hosting", "where", "near.yaml")
    match = re.search("worst is a node that the NIC is not on", done.stderr)
    checks.that("worst without a remote lcore is refused", done.returncode == 2 and bool(match))


def study(**changes: Any) -> dict[str, Any]:
    """Sieber et al.'s, small enough for an emulated guest."""
    folder = Path(os.environ["HEADRACE_REPO"]) / "studies/s5"
    data: dict[str, Any] = yaml.safe_load((folder / "figure-5.yaml").read_text())
    data["groups"] |= yaml.safe_load((folder / "figure-3.yaml").read_text())["groups"]
    data["deployment"] |= {"memory_mb": 192, "hugepages": False}
    data["measure"]["trial"] = 0.5  # an emulated lcore may not run for a tenth of a second
    acl = data["groups"]["placements"]["spec"]["chain"][1]["acl"]
    acl["rules_file"] = str(folder / acl["rules_file"])
    return data | {"repetitions": 1, "warmup": 0.1} | changes


def bound(pid: int, huge: bool) -> dict[int, int]:
    """Pages of each node in the mappings that packet buffers are in: those that are bound to a
    node, or hugepages."""
    by_thread: dict[int, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        if (" huge " in line) if huge else re.search(r" bind:\d", line):
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                by_thread[int(node)] = by_thread.get(int(node), 0) + int(pages)
    return by_thread


def packets_placed(checks: Checks) -> None:
    """The source is on node 0; its packets are where the spec says, by numa_maps."""
    from headrace.errors import HeadraceError
    from headrace.ground.choose import Grounds
    from headrace.measure.session import measuring
    from headrace.spec import document

    for node in (0, 1, 5):
        data = study()
        spec = {key: data[key] for key in ("name", "workload", "measure")}
        spec |= data["groups"]["local"]["spec"]
        spec["deployment"] |= data["deployment"] | {"packets_node": node}
        try:
            checked = Grounds().check(document.parse(yaml.safe_dump(spec), Path("s5.yaml")))
            [point] = checked.points
            with measuring("packets-placed") as session:
                session.hold(point.cpus)
                session.provide(checked.memory)
                with session.deployed(point) as up:
                    [engine] = up.parts().processes
                    pages = bound(engine.pid, session.memory.hugepages)
            there = pages.get(node, 0) > 0 and set(pages) == {node}
            checks.that(f"packets on node {node}: all their pages are", there, pages)
        except HeadraceError as why:
            checks.that(f"packets on node {node}: refused", node == 5 and "node 5" in str(why), why)


def placements_of_s5(checks: Checks) -> None:
    """Each function's lcore is of the node that the execution is named for, and all is measured."""
    Path("s5.yaml").write_text(yaml.safe_dump(study()))
    triples = {f"{a}-{b}-{c}" for a in (0, 1) for b in (0, 1) for c in (0, 1)}
    for figure, executions in ((3, {"local", "remote"}), (5, triples)):
        rows = answer("run", "s5.yaml", "--figure", str(figure))["results"]
        checks.equal(f"Sieber, figure {figure}", {row["execution"] for row in rows}, executions)
        for row in rows:
            chain = [one for one in row["segments"] if one["role"] == "chain"]
            nodes = "-".join(str(node_of(cpu)) for one in chain for cpu in one["cpus"])
            wanted = {"local": "0", "remote": "1"}.get(row["execution"], row["execution"])
            checks.equal(f"Sieber, {row['execution']}: nodes of its lcores", nodes, wanted)
            carried = row["received"] + row["policy_dropped"]
            checks.that(f"Sieber, {row['execution']}: it carries packets", carried > 0, carried)


def forwarded(checks: Checks) -> None:
    """Flows are spread over all lcores that forward, and each packet is forwarded once."""
    from headrace.record.bundle import Bundle

    Path("spread.yaml").write_text(SPREAD)
    done = headrace("run", "spread.yaml", "--out", "spread")
    checks.equal("offload on three lcores: the run's exit status", done.returncode, 0)
    for one in Bundle(Path("spread")).trials() if not done.returncode else ():
        if one.phase != "fixed" or one.counters is None:
            continue
        took = {r.cpu: r.packets_in for r in one.counters.replicas if r.nfs}
        name = f"{one.execution} on three lcores"
        checks.equal(f"{name}: which", sorted(took), ALL)
        checks.that(f"{name}: each has some of the packets", all(took.values()), took)
        checks.equal(f"{name}: all of them", [sum(took.values()), one.received], [one.sent] * 2)


PARTS: dict[str, tuple[Callable[[Checks], None], ...]] = {
    "forwarded": (forwarded,),
    "described": (described,),
    "placed": (placed, left_to_the_scheduler, refused),
    "real-nic": (real_nic,),
    "packets": (packets_placed,),
    "sieber": (placements_of_s5,),
}


def main(*parts: str) -> int:
    for unknown in set(parts) - PARTS.keys():
        sys.exit(f"no part '{unknown}'; allowed: {', '.join(PARTS)}")
    checks = Checks()
    load("igb", "igbvf", "veth")
    for address in (PF, OTHER):
        Path(f"/proc/sys/net/ipv6/conf/{interface(address)}/disable_ipv6").write_text("1")
    for name in parts or PARTS:
        began = time.monotonic()
        for one in PARTS[name]:
            one(checks)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    checks.equal("left behind: namespaces, state", [namespaces(), state()], [[], []])
    ours = subprocess.run(["pgrep", "-c", "headrace-engine"], capture_output=True, text=True)
    checks.equal("left behind: engines", ours.stdout.strip(), "0")
    return checks.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
