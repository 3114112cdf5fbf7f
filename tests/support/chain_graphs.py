# SPDX-License-Identifier: Apache-2.0
"""A study of 64 chain graphs, half by NfvInsight's knowledge base and half by headrace's, with a
function of headrace's own in the place of each VNF, so that each can be predicted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb

FUNCTIONS = {
    "acl": "{acl: {rules: [{action: permit}]}}",
    "l2": "{l2fwd: {}}",
    "l3": "{l3fwd: {routes: [{prefix: 0.0.0.0/0, next_hop: 0}]}}",
}
# What stands for each VNF of a graph, in its order.
_STANDS_FOR = {
    "nat": "l3", "ip-firewall": "acl", "l4-lb": "l3", "l7-cache": "l2", "ids": "acl",
    "monitor": "l2", "router": "l3",
}  # fmt: skip


def _graphs_of(base: str, *vnfs: str) -> list[dict[str, str | None]]:
    command = [sys.executable, "-m", "headrace", "chains", *vnfs, "--base", base, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listed: list[dict[str, str | None]] = json.loads(done.stdout)["graphs"]
    return listed


def both_bases(folder: Path) -> Path:
    six = ("nat", "ip-firewall", "l4-lb", "l7-cache", "ids", "monitor")
    graphs = [*_graphs_of("nfvinsight", *six), *_graphs_of("headrace", *six, "router")[:32]]
    assert len(graphs) == 64
    file = folder / "bases.yaml"
    lines = []
    for number, graph in enumerate(graphs):
        functions = ", ".join(FUNCTIONS[_STANDS_FOR[vnf]] for vnf in graph)
        lines.append(f"  g{number:02}: [{functions}]")
    file.write_text(
        "name: bases\nchains:\n" + "\n".join(lines) + "\nworkload: {flows: 1024}\n"
        "measure: {max: true}\nground: {simulated: {server: reference, engine: analytic}}\n"
    )
    return file


def rows(folder: Path, stem: str) -> list[tuple[Any, ...]]:
    """Gives all that was measured, but for when."""
    when = " EXCLUDE started_at" if stem == "trials" else ""
    with duckdb.connect() as db:
        return db.execute(f"SELECT *{when} FROM read_parquet('{folder}/{stem}.parquet')").fetchall()
