# SPDX-License-Identifier: Apache-2.0
"""`headrace campaign --pods` on a real cluster: points predicted in Jobs are those predicted here,
however often the campaign was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support import chain_graphs, lab_image
from support.cluster import OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

CHAINS = {
    "one": "[l2fwd]",
    "two": "[{acl: {rules_file: my.rules}}, l2fwd]",
    "three": "[{l3fwd: {routes: [{prefix: 0.0.0.0/0, next_hop: 0}]}}]",
    "four": "[l2fwd, {acl: {rules: [{action: permit}]}}]",
    "five": "[monitor, l2fwd]",
    "six": "[monitor]",
}
SPEC = (
    "name: words\nchains:\n"
    + "".join(f"  {name}: {chain}\n" for name, chain in CHAINS.items())
    + "workload: {flows: 1024}\nmeasure: {max: true, loads: [1M]}\n"
    "ground: {simulated: {server: reference}}\n"
)


@pytest.fixture(scope="module")
def image(cluster: OwnCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from headrace.ground import catalogue

    try:
        name = lab_image.build(catalogue.find("headrace").image, tmp_path_factory.mktemp("image"))
        cluster.load(name)
        yield name
    finally:
        lab_image.remove()


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`clean` is to see the runs of these tests only."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "my.rules").write_text(
        "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n"
    )
    file = tmp_path / "words.yaml"
    file.write_text(SPEC)
    return file


def rows(folder: Path, stem: str) -> list[tuple[Any, ...]]:
    when = " EXCLUDE started_at" if stem == "trials" else ""
    with duckdb.connect() as db:
        return db.execute(f"SELECT *{when} FROM read_parquet('{folder}/{stem}.parquet')").fetchall()


def complete(folder: Path) -> set[str]:
    states = {
        file.parent.name: json.loads(file.read_text()) for file in folder.glob("[!.]*/status.json")
    }
    return {name for name, status in states.items() if status["state"] == "complete"}


def kill_after(cluster: OwnCluster, command: list[object], folder: Path, count: int) -> set[str]:
    process = cluster.begin(*command, log=folder.with_suffix(".log"))
    try:
        deadline = time.monotonic() + 300
        while len(complete(folder)) < count:
            assert process.poll() is None, folder.with_suffix(".log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return complete(folder)


def test_64_graphs_killed_twice_equal_those_that_were_not(
    cluster: OwnCluster, image: str, spec: Path, tmp_path: Path
) -> None:
    """The same points, predicted here."""
    graphs, here, there = chain_graphs.both_bases(tmp_path), tmp_path / "here", tmp_path / "there"
    command = [sys.executable, "-m", "headrace", "campaign", graphs, "--out", here, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    jobs: list[object] = ["campaign", graphs, "--out", there, "--json", "--pods", image]
    first = kill_after(cluster, jobs, there, 10)
    assert len(cluster.left()["cluster"]) == 1  # for the next one to remove
    second = kill_after(cluster, jobs, there, len(first) + 15)
    assert first < second and len(second) < 64
    again = cluster.headrace(*jobs, timeout_s=900)
    assert again.returncode == 0, again.stderr
    assert cluster.left() == {}
    for stem in ("trials", "results"):
        assert len(rows(here, stem)) == 64
        assert rows(there, stem) == rows(here, stem)
    points = [json.loads(one.stdout)["points"] for one in (done, again)]
    assert points[0] == points[1]


def test_a_point_that_fails_is_named_and_others_go_on(
    cluster: OwnCluster, image: str, spec: Path, tmp_path: Path
) -> None:
    """An image that no node has is told once, as its kubelet says it."""
    done = cluster.headrace(
        "campaign", spec, "--out", tmp_path / "c", "--pods", "localhost/headrace/none:1"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "headrace: points that failed: 1, 2, 3, 4, 5, 6"
    assert "localhost/headrace/none:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert cluster.left() == {}
