# SPDX-License-Identifier: Apache-2.0
"""Scenarios of draft-ietf-bmwg-containerized-infra-08 that are pods, each measured on a real
cluster; and a campaign of such points, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb
import pytest
import yaml

from conftest import REPO
from headrace.record.bundle import Bundle
from support.cluster import OwnCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_root,
    pytest.mark.usefixtures("images", "router", "own_state"),
]

STUDIES = REPO / "studies" / "bmwg"
APPLICATIONS = (
    ("normal-non-acceleration", "pods-bridge"),
    ("normal-non-acceleration", "pods-macvlan"),
    ("resources-configuration", "inter-node"),
)
ENGINES = (
    ("user-space-acceleration", "pods-memif"),
    ("user-space-acceleration", "pods-vhost-user"),
    ("resources-configuration", "cpu-isolation"),
    ("resources-configuration", "pod-hugepages"),
    ("resources-configuration", "pod-privileges"),
)
ENGINE_PAGES = 256  # of 2 MB: an engine's 512 MB
GOAL_S = 300  # from `run` to the report of a chain over memif, with its NDR


@pytest.fixture(scope="module")
def router(cluster: OwnCluster) -> None:
    from headrace.ground import catalogue

    cluster.load(catalogue.find("router").image)


@contextmanager
def free_pages() -> Iterator[set[int]]:
    """How many the kernel had meanwhile."""
    free, over = {free_now()}, Event()

    def look() -> None:
        while not over.wait(0.2):
            free.add(free_now())

    watching = Thread(target=look)
    watching.start()
    try:
        yield free
    finally:
        over.set()
        watching.join()


def free_now() -> int:
    return int(Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").read_text())


def measured(cluster: OwnCluster, file: str, group: str, bundle: Path) -> float:
    """The seconds from `run` to the report."""
    began = time.monotonic()
    study = STUDIES / f"{file}.yaml"
    command = ("run", study, "--group", group, "--quick", "--out", bundle)
    done = cluster.headrace(*command, timeout_s=550)
    assert done.returncode == 0, done.stderr
    assert (bundle / "report.html").is_file()
    assert cluster.left() == {}
    return time.monotonic() - began


@pytest.mark.parametrize(("file", "group"), APPLICATIONS)
def test_pods_of_appliances(cluster: OwnCluster, tmp_path: Path, file: str, group: str) -> None:
    measured(cluster, file, group, tmp_path / "bundle")
    [result] = Bundle(tmp_path / "bundle").results()
    assert result.application is not None
    assert result.application.requests > 100
    assert result.application.errors == 0


@pytest.mark.parametrize(("file", "group"), ENGINES)
def test_pods_of_engines(cluster: OwnCluster, tmp_path: Path, file: str, group: str) -> None:
    """Each trial of the search has its audit, and no packet is unaccounted for in any."""
    with free_pages() as free:
        seconds = measured(cluster, file, group, tmp_path / "bundle")
    bundle = Bundle(tmp_path / "bundle")
    results = bundle.results()
    assert results and all(one.goal == "ndr" for one in results)
    for trial in bundle.trials():
        checks = {finding.check: finding.ok for finding in trial.audit.findings}
        assert trial.phase == "warm-up" or checks["conservation"], trial.audit
    if group == "pod-hugepages":
        assert ["no-huge" in one.labels for one in results] == [True, False]
        assert max(free) - min(free) >= 2 * ENGINE_PAGES, free
    figures = [(one.throughput_pps, one.audit.verdict) for one in results]
    print(f"{group}: {seconds:.0f} s, {figures}")
    if group == "pods-memif":
        assert seconds < GOAL_S


def campaign_of_pods() -> dict[str, Any]:
    """Third-party VNFs by two networks, and headrace's own functions over memif."""
    study: dict[str, Any] = yaml.safe_load((STUDIES / "normal-non-acceleration.yaml").read_text())
    study["groups"] = {
        name: group for name, group in study["groups"].items() if name.startswith("pods-")
    }
    for group in study["groups"].values():
        del group["quick"]
        group["spec"]["measure"]["trial"] = "2 s"
    study["groups"]["pods-memif"] = {
        "about": "Pods of headrace's own functions.",
        "spec": {
            "chain": ["l2fwd"],
            "workload": {"frame": 128, "flows": 256},
            "measure": {"search": [], "loads": ["2k"], "trial": "1 s"},
            "ground": {"kubernetes": {"cpus": 0, "pod_cpus": {"tester": 1}, "nodes": "node1"}},
        },
    }
    study["repetitions"] = 1
    return study


def killed_beside(cluster: OwnCluster, command: list[object], done: list[Path], log: Path) -> None:
    """A campaign that is killed once these bundles are complete, and pods of the next are there."""
    process = cluster.begin(*command, log=log)
    try:
        deadline = time.monotonic() + 200
        while not all(map(complete, done)) or not cluster.left().get("cluster"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def test_a_campaign_of_pods_that_was_killed_twice(cluster: OwnCluster, tmp_path: Path) -> None:
    """Points that are measured on the cluster, one at a time; what a killed one left there goes
    when it is gone on with, and none that was complete is measured again. One store has all."""
    spec, folder = tmp_path / "pods.yaml", tmp_path / "campaign"
    spec.write_text(yaml.safe_dump(campaign_of_pods(), sort_keys=False))
    command: list[object] = ["campaign", spec, "--out", folder, "--json"]
    keys = ["pods-bridge-1", "pods-macvlan-1", "pods-memif-1"]
    first, second = (folder / f"{key}-1" / "status.json" for key in keys[:2])
    killed_beside(cluster, command, [first], tmp_path / "log1")
    assert not complete(second)
    killed_beside(cluster, command, [first, second], tmp_path / "log2")
    assert "1 run of before" in (tmp_path / "log2").read_text()
    assert len(cluster.left()["cluster"]) == 1  # the third's: the first's is gone
    written = [one.stat().st_mtime_ns for one in (first, second)]
    done = cluster.headrace(*command)
    assert done.returncode == 0, done.stderr
    assert "2 runs of before" in done.stderr
    assert [one.stat().st_mtime_ns for one in (first, second)] == written
    points = {one["key"]: one for one in json.loads(done.stdout)["points"]}
    assert {key for key, one in points.items() if one["median"]} == set(keys)
    assert cluster.left() == {}
    with duckdb.connect() as db:
        query = f"SELECT bundle, count(*) FROM read_parquet('{folder}/results.parquet') GROUP BY 1"
        assert dict(db.execute(query).fetchall()) == {f"{key}-1": 1 for key in keys}


def complete(status: Path) -> bool:
    return status.is_file() and json.loads(status.read_text())["state"] == "complete"
