# SPDX-License-Identifier: Apache-2.0
"""VNFs on virtual functions of several emulated ports whose wires are joined, inside a guest: who
passes packets to whom, often from one port to another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from checks import Checks, headrace

SPEC = """
name: '{name}'
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


def trial(bundle: Path) -> dict[str, Any]:
    """The record of the only fixed load."""
    rows = duckdb.sql(
        f"select sent, received, lost, duplicated, unstamped, counters, anatomy, direction "
        f"from '{bundle}/trials.parquet' where phase = 'fixed' order by direction"
    )
    names = [column[0] for column in rows.description]
    row = dict(zip(names, rows.fetchall()[0], strict=True))
    counters = row["counters"]
    row["counters"] = json.loads(counters) if isinstance(counters, str) else counters
    return row


def spread(checks: Checks, pfs: Sequence[str], vnfs: int) -> None:
    """A study with so many VNFs on these ports, each by two functions, as the tester has."""
    name = f"ports-{len(pfs)}"
    file = Path(f"{name}.yaml")
    file.write_text(SPEC.format(name=name, vnfs=vnfs, pfs=", ".join(pfs)))
    done = headrace("run", str(file), "--out", f"{name}-bundle")
    checks.equal(f"{name}: the run's exit status", done.returncode, 0)
    if not done.returncode:
        hops(checks, name, Path(f"{name}-bundle"), vnfs)


def hops(checks: Checks, name: str, bundle: Path, vnfs: int) -> None:
    """The sum over all VNFs is, each way, what was sent; each VNF gives what it took, and its
    functions' own driver counts as much."""
    ways = dict(
        duckdb.sql(
            f"select direction, sent from '{bundle}/trials.parquet' where phase = 'fixed'"
        ).fetchall()
    )
    one = trial(bundle)
    sent = ways["forward"] + ways["reverse"]
    checks.equal(f"{name}: both ways: sent", one["sent"], sent)
    checks.that(f"{name}: both ways: packets were sent", sent >= 100, sent)
    checks.equal(f"{name}: both ways: packets that came back", one["received"], sent)
    lost = [one[key] for key in ("lost", "duplicated", "unstamped")]
    checks.equal(f"{name}: lost, doubled, somebody else's", lost, [0, 0, 0])
    own = [r for r in one["counters"]["replicas"] if r["segment"].startswith("vnf")]
    checks.equal(f"{name}: VNFs", len(own), vnfs)
    checks.equal(
        f"{name}: VNFs without a packet", [r["segment"] for r in own if not r["packets_in"]], []
    )
    kept = [r["segment"] for r in own if r["packets_in"] != r["packets_out"]]
    checks.equal(f"{name}: VNFs that kept or made any", kept, [])
    checks.equal(f"{name}: packets in all VNFs", sum(r["packets_in"] for r in own), sent)
    theirs = {k: v for k, v in one["counters"]["ports"].items() if k.startswith("vnf")}
    checks.equal(f"{name}: their functions", len(theirs), 2 * vnfs)
    for key in ("rx", "tx"):
        engine = sum(port[f"{key}_packets"] for port in theirs.values())
        checks.equal(f"{name}: {key} at all of them by engines", engine, sent)
        driver = sum(port[f"device_{key}"] for port in theirs.values())
        checks.equal(f"{name}: {key} at all of them by their driver", driver, sent)
