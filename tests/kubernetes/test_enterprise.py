# SPDX-License-Identifier: Apache-2.0
"""NfvInsight's eight chain graphs of five VNFs (Xu et al. 2022, figure 3), beside each VNF alone
and none, one after the other on two real nodes in turn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from conftest import REPO
from support.cluster import OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

STUDY = REPO / "studies" / "nfvinsight" / "enterprise.yaml"
GRAPHS, OTHERS = 8, 6  # each of five VNFs alone, and no VNF


@pytest.mark.usefixtures("images")
def test_the_eight_graphs_are_carried_on_two_nodes(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study as it is; what pods cannot have of it is left out."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    bundle = tmp_path / "bundle"
    done = cluster.headrace("run", STUDY, "--on", "kubernetes", "--out", bundle, timeout_s=1500)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    with duckdb.connect() as db:
        query = f"SELECT chain, application FROM read_parquet('{bundle}/results.parquet')"
        measured = db.execute(query).fetchall()
    chains = {chain for chain, _ in measured}
    assert len(chains) == GRAPHS + OTHERS
    assert sum("→" in chain for chain in chains) == GRAPHS
    for chain, figures in measured:
        assert figures["requests"] > 100, chain
        assert figures["errors"] == 0, chain
    deployed = json.loads((bundle / "samples" / "pods.json").read_text())
    nodes = [{place["node"] for place in places.values()} for places in deployed.values()]
    assert sorted(map(sorted, nodes)) == [["node1"]] * 7 + [["node2"]] * 7
    command = [sys.executable, "-m", "headrace", "explain", str(bundle), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [named] = [one for one in json.loads(told) if one["rule"] == "narrowest-vnf"]
    print(f"{named['text']}: {named['evidence']}")
    assert named["place"].startswith("bridge, ")
