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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import chain_graphs, lab_image
from support.chain_graphs import rows
from support.cluster import OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

CHAINS = {
    "one": "[l2fwd]",
    "two": "[{acl: {rules_file: my.rules}}, l2fwd]",
    "three": "[{l3fwd: {routes: [{prefix: 0.0.0.0/0, next_hop: 0}]}}]",
    "four": "[l2fwd, {acl: {rules: [{action: permit}]}}]",
    "five": "[l2fwd, l2fwd]",
    "six": "[{acl: {rules: [{action: permit}]}}]",
}
SPEC = (
    "name: words\nchains:\n"
    + "".join(f"  {name}: {chain}\n" for name, chain in CHAINS.items())
    + "workload: {flows: 1024}\nmeasure: {max: true, loads: [1M]}\n"
    "ground: {simulated: {server: reference}}\n"
)


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
    cluster: OwnCluster, own_image: str, spec: Path, tmp_path: Path
) -> None:
    """The same points, predicted here."""
    graphs, here, there = chain_graphs.both_bases(tmp_path), tmp_path / "here", tmp_path / "there"
    command = [sys.executable, "-m", "headrace", "campaign", graphs, "--out", here, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    jobs: list[object] = ["campaign", graphs, "--out", there, "--json", "--pods", own_image]
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


# An image in which one point's command fails, one's wants more memory than its limit each time, and
# one's takes long enough to lose its pod.
FAILING = """FROM {image}
RUN printf '%s\\n' '#!/bin/sh' 'case "$*" in' \\
    '*"--point 2 "*) echo "headrace: no luck today" >&2; exit 3;;' \\
    '*"--point 4 "*) exec python3 -c "bytes(1) + bytes([7]) * (2 << 30)";;' \\
    '*"--point 5 "*) sleep 15;;' \\
    'esac' 'exec python3 -m headrace "$@"' >/usr/bin/headrace
"""


@pytest.fixture
def failing(cluster: OwnCluster, own_image: str, tmp_path: Path) -> Iterator[str]:
    name = "localhost/headrace/failing:test"
    folder = tmp_path / "failing"
    folder.mkdir()
    (folder / "Containerfile").write_text(FAILING.format(image=own_image))
    try:
        lab_image.build_in(folder, name)
        cluster.load(name)
        yield name
    finally:
        lab_image.remove(name)


def pod_of(cluster: OwnCluster, job: str) -> tuple[str, str]:
    """The namespace and name of the pod in which a Job runs."""
    path = "{range .items[*]}{.metadata.namespace} {.metadata.name} {.status.phase}{'\\n'}{end}"
    deadline = time.monotonic() + 120
    while True:
        for line in cluster.kubectl("get", "pods", "-A", "-o", f"jsonpath={path}").splitlines():
            namespace, pod, phase = line.split()
            if pod.startswith(job) and phase == "Running":
                return namespace, pod
        assert time.monotonic() < deadline, f"no pod of {job} runs"
        time.sleep(0.3)


def test_others_go_on_where_jobs_fail_and_it_is_resumed(
    cluster: OwnCluster, own_image: str, failing: str, spec: Path, tmp_path: Path
) -> None:
    """Each point that failed has its reason; one whose pod was taken away has run again; the same
    command with an image that works measures those that are lacking and no others."""
    folder = tmp_path / "jobs"
    command = ("campaign", spec, "--out", folder, "--json", "--jobs", 3, "--pods")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(cluster.headrace, *command, failing, timeout_s=400)
        namespace, pod = pod_of(cluster, "5-1-")
        cluster.kubectl("delete", "pod", "-n", namespace, pod, "--grace-period=0")
        done = running.result()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "headrace: points that failed: 2, 4"
    points = {one["key"]: one for one in json.loads(done.stdout)["points"]}
    assert points["2"]["failed"] == "no luck today"
    assert "its container command ended (OOMKilled, exit status 137)" in points["4"]["failed"]
    assert complete(folder) == {"1-1", "3-1", "5-1", "6-1"}
    assert cluster.left() == {}
    before = {name: (folder / name / "status.json").stat().st_mtime_ns for name in complete(folder)}
    done = cluster.headrace(*command, own_image)
    assert done.returncode == 0, done.stderr
    assert "4 runs of before" in done.stderr
    assert all(one["failed"] is None for one in json.loads(done.stdout)["points"])
    assert complete(folder) == {f"{number}-1" for number in range(1, 7)}
    for name, at in before.items():
        assert (folder / name / "status.json").stat().st_mtime_ns == at
    assert len(rows(folder, "results")) == 2 * len(CHAINS)  # a search's and a load's


def test_a_point_that_fails_is_named_and_others_go_on(
    cluster: OwnCluster, own_image: str, spec: Path, tmp_path: Path
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
