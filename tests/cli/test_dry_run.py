# SPDX-License-Identifier: Apache-2.0
"""`run --check` says how many of a workload's packets the chain's own rules would drop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import build

pytestmark = pytest.mark.parallel

CLIENTS = "acl: {rules: [{action: permit, src: 198.18.0.0/16}], default: deny}"
RANGES = "l3fwd: {fib: exact, ranges: [{first: 16.0.0.0, count: 8388608}], next_hops: [{edge: 0}]}"
ROUTES = "l3fwd: {next_hops: [{edge: 0}], routes: [{prefix: 0.0.0.0/0, next_hop: 0}]}"
NONE = "none comes through the chain"


@pytest.mark.parametrize(
    ("chain", "more", "expected"),
    [
        ("acl: {rules: [{action: permit, dport: [53]}], default: deny}", "",
         f"of 1024 packets of the workload tried, forward, {NONE} (acl: denied-by-default 1024)"),
        ("acl: {rules: [{action: permit, sport: [1024, 1279]}], default: deny}", "",
         "768 are dropped (acl: denied-by-default 768)"),
        ("acl: {rules: [{action: deny, sport: [1024, 1279]}], default: permit}",
         "measure: {max: true, losses: unintended}", "256 are dropped (acl: denied 256)"),
        ("l3fwd: {routes_file: none}", "", f"{NONE} (l3fwd: no-route 1024)"),
        ("firewall: {rules: [{action: permit}]}", "workload: {direction: reverse}",
         f"reverse, {NONE}"),
        ("acl: {rules: [{action: permit, dport: [53]}], default: deny}",
         "deployment: {hosting: process}", f"{NONE} (acl: denied-by-default 1024)"),
        ("acl: {rules: [{action: permit, dport: [80]}], default: deny}", "", None),
        ("acl: {rules: [{action: permit, dport: [80]}], default: deny}",
         "deployment: {execution: {segments: [[acl]], replicas: [1]}}", None),
        (ROUTES, "workload: {flows: 100}", None),
        ("l3fwd: {fib: exact, ranges: [{first: 198.19.0.1, count: 2}], next_hops: [{edge: 0}]}",
         "", None),
        (CLIENTS, "workload: {flows: 100000}\ndeployment: {memory_mb: 1536}",
         "of 100000 packets of the workload tried, forward, 34465 are dropped"),
        (CLIENTS, "workload: {flows: 65000}", None),
        (RANGES, "workload: {headers: {dst_ip: 16.0.0.0}}", None),
        ("\"null\": {action: drop}", "", None),
    ],
)  # fmt: skip
def test_what_becomes_of_the_first_packets(
    chain: str, more: str, expected: str | None, tmp_path: Path, engine_binary: Path
) -> None:
    (tmp_path / "none").write_text("# no route yet\n")
    spec = tmp_path / "x.yaml"
    spec.write_text(f"name: x\nchain: [{{{chain}}}]\n{more}\n")
    done = CliRunner().invoke(build(["run"]), ["run", "--check", "--json", str(spec)])
    assert done.exit_code == 0, done.output
    [one] = json.loads(done.stdout)["experiments"]
    tried = [note for note in one["notes"] if "packets of the workload tried" in note]
    assert len(tried) == (expected is not None), one["notes"]
    assert (expected or "") in "".join(tried)
