# SPDX-License-Identifier: Apache-2.0
"""NfvInsight's eight chain graphs of five VNFs (Xu et al. 2022, figure 3), one after the other on
two real nodes in turn: `headrace run studies/nfvinsight/enterprise.yaml --on kubernetes` without
the parts that are no graphs, each once."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
import yaml

from conftest import REPO
from support.cluster import OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]


@pytest.mark.usefixtures("images")
def test_the_eight_graphs_are_carried_on_two_nodes(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    study = yaml.safe_load((REPO / "studies" / "nfvinsight" / "enterprise.yaml").read_text())
    for part in ("baseline", "alone", "scale_out"):
        del study[part]
    study["deployment"]["hosting"]["network"] = "bridge"
    study["repetitions"] = 1
    spec, bundle = tmp_path / "graphs.yaml", tmp_path / "bundle"
    spec.write_text(yaml.safe_dump(study))
    done = cluster.headrace("run", spec, "--on", "kubernetes", "--out", bundle, timeout_s=1500)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    with duckdb.connect() as db:
        query = f"SELECT chain, application FROM read_parquet('{bundle}/results.parquet')"
        measured = dict(db.execute(query).fetchall())
    assert len(measured) == 8
    for chain, figures in measured.items():
        assert figures["requests"] > 100, chain
        assert figures["errors"] == 0, chain
    deployed = json.loads((bundle / "samples" / "pods.json").read_text())
    nodes = [{place["node"] for place in places.values()} for places in deployed.values()]
    assert sorted(map(sorted, nodes)) == [["node1"]] * 4 + [["node2"]] * 4
