# SPDX-License-Identifier: Apache-2.0
"""40 VNFs on 80 virtual functions of twelve emulated ports that a hub joins, inside a guest
(tests/vm/run.sh sriov_ports): who passes packets to whom, often from one port to another."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import duckdb
from checks import Checks, functions, headrace, interface, load, namespaces, state
from sriov import trial

VNFS = 40  # with two functions each, as the tester has: 82 of the 84 that twelve ports can have
SPEC = """
name: many
chain: ['null']
deployment:
  hosting: {{kind: process, chains: {vnfs}, wait: adaptive, mbufs: 1024, times: false}}
  network: sriov
  pf: [{pfs}]
  hugepages: false
  lcores: {{traffic: [0], chain: [1, 2, 3]}}
workload: {{frame: [128], flows: {vnfs}, direction: both}}
warmup: 0
measure: {{loads: [40], trial: 5 s, drain: 10.0}}
"""


def ports() -> list[str]:
    """Addresses of all that can have functions."""
    files = Path("/sys/bus/pci/devices").glob("*/sriov_totalvfs")
    return sorted(one.parent.name for one in files)


def hops(checks: Checks, bundle: Path) -> None:
    """The sum over all VNFs is, each way, what was sent; each VNF gives what it took, and its
    functions' own driver counts as much."""
    ways = dict(
        duckdb.sql(
            f"select direction, sent from '{bundle}/trials.parquet' where phase = 'fixed'"
        ).fetchall()
    )
    one = trial(bundle)
    sent = ways["forward"] + ways["reverse"]
    checks.equal("both ways: sent", one["sent"], sent)
    checks.that("both ways: packets were sent", sent >= 100, sent)
    checks.equal("both ways: packets that came back", one["received"], sent)
    lost = [one[key] for key in ("lost", "duplicated", "unstamped")]
    checks.equal("lost, doubled, somebody else's", lost, [0, 0, 0])
    vnfs = [r for r in one["counters"]["replicas"] if r["segment"].startswith("vnf")]
    checks.equal("VNFs", len(vnfs), VNFS)
    checks.equal("VNFs without a packet", [r["segment"] for r in vnfs if not r["packets_in"]], [])
    kept = [r["segment"] for r in vnfs if r["packets_in"] != r["packets_out"]]
    checks.equal("VNFs that kept or made any", kept, [])
    checks.equal("packets in all VNFs", sum(r["packets_in"] for r in vnfs), sent)
    theirs = {k: v for k, v in one["counters"]["ports"].items() if k.startswith("vnf")}
    checks.equal("their functions", len(theirs), 2 * VNFS)
    for key in ("rx", "tx"):
        engine = sum(port[f"{key}_packets"] for port in theirs.values())
        checks.equal(f"{key} at all of them by engines", engine, sent)
        driver = sum(port[f"device_{key}"] for port in theirs.values())
        checks.equal(f"{key} at all of them by their driver", driver, sent)


def main() -> int:
    checks = Checks()
    load("igb", "igbvf", "veth")
    addresses = ports()
    checks.equal("ports", len(addresses), 12)
    names = [interface(one) for one in addresses]
    for kind in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6").write_text("1")
    file = Path("many.yaml")
    file.write_text(SPEC.format(vnfs=VNFS, pfs=", ".join(names)))
    done = headrace("run", str(file), "--out", "many")
    checks.equal("the run's exit status", done.returncode, 0)
    if not done.returncode:
        hops(checks, Path("many"))
    left = Counter(functions(one) for one in addresses)
    checks.equal("functions left", left, Counter({0: len(addresses)}))
    checks.equal("namespaces, state left", [namespaces(), state()], [[], []])
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
