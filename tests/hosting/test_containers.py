# SPDX-License-Identifier: Apache-2.0
"""VNFs in containers of headrace's image, and the control groups of VNFs in processes: what goes
through, what is limited and counted, who may die, and what is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from headrace.collect.samples import Samples, Window
from headrace.errors import HeadraceError
from headrace.host import cgroups, hugepages
from support.containers import lacking
from support.lab import COMMAND, environment, headrace, killed_vnfs, state_left

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

ATTEMPTS = 3
LIMITS = {"cpus": 0.5, "memory_limit_mb": 192}


def spec(
    hosting: dict[str, object],
    direction: str = "forward",
    chain: str = "[l2fwd]",
    execution: str = "pipeline",
) -> str:
    return f"""
name: hosted
chain: {chain}
deployment:
  hosting: {json.dumps(hosting)}
  execution: {execution}
  hugepages: false
workload: {{frame: [128], flows: 60, direction: {direction}}}
warmup: 0
measure: {{loads: [2000], trial: 0.5, drain: 1.0}}
"""


@pytest.fixture
def image(engine_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue's, with the engine that is tested."""
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    if why := lacking("headrace"):
        pytest.skip(why)


@pytest.fixture
def groups() -> cgroups.Hierarchy:
    """Where control groups are made here."""
    try:
        own = cgroups.make("run-probe")
    except HeadraceError as why:
        pytest.skip(str(why))
    cgroups.remove(own.name)
    tree = cgroups.find()
    assert tree is not None
    return tree


def run(folder: Path, engine: Path, text: str) -> None:
    """Once more where the machine paused so long that a queue was full."""
    (folder / "spec.yaml").write_text(text)
    for number in range(ATTEMPTS):
        done = headrace(
            "run", "spec.yaml", "--out", f"b{number}", "--json",
            folder=folder, engine=engine, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if not any(result["loss_ratio"] for result in json.loads(done.stdout)["results"]):
            (folder / "b").symlink_to(folder / f"b{number}")
            return
    pytest.fail(f"packets were lost in each of {ATTEMPTS} runs: {done.stdout}")


def left(hierarchy: cgroups.Hierarchy) -> list[Path]:
    """Groups of runs that this test has made: its runs are over."""
    return [path for root in hierarchy.roots for path in (root / "headrace").glob("run-*")]


def sampled(folder: Path) -> Window:
    return Samples(folder / "b" / "samples").window("virtualization")


def test_processes_have_groups(
    engine_binary: Path, tmp_path: Path, groups: cgroups.Hierarchy
) -> None:
    """The limits are the kernel's, and the collector reads each VNF's own CPU and memory."""
    before = left(groups)
    text = spec({"kind": "process", "chains": 2, **LIMITS}) + "collect: [virtualization]\n"
    run(tmp_path, engine_binary, text)
    window = sampled(tmp_path)
    assert set(window.now("cgroup_cpu_ns")) == {"vnf1.1", "vnf2.1"}
    assert all(spent > 0 for spent in window.change("cgroup_cpu_ns").values())
    assert set(window.now("cgroup_cpu_quota_cpus").values()) == {0.5}
    for used in window.now("cgroup_memory_bytes").values():
        assert 1 << 20 < used <= 192 << 20
    assert set(left(groups)) <= set(before)


@pytest.mark.parametrize("kind", ["process", "container"])
def test_on_hugepages(
    kind: str, engine_binary: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The kernel says of each VNF how much of its memory is in them, and they go with the run."""
    if kind == "container":
        request.getfixturevalue("image")
    pages = hugepages.pool()
    assert pages is not None
    hosting: dict[str, object] = {"kind": kind, "chains": 2, "hugepages": True}
    text = spec({**hosting, "memory_limit_mb": 128}).replace("  hugepages: false\n", "")
    (tmp_path / "spec.yaml").write_text(text)
    done = headrace(
        "hosting", "where", "spec.yaml", "--json", folder=tmp_path, engine=engine_binary,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    engines = {one["name"]: one for one in json.loads(done.stdout)["engines"]}
    assert set(engines) == {"host", "vnf1.1", "vnf2.1"}
    for name in ("vnf1.1", "vnf2.1"):
        assert engines[name]["page_kb"][str(pages.page_kb)] >= 64 << 10
    assert state_left(tmp_path) == []


def test_memory_limit_is_held_and_told(groups: cgroups.Hierarchy) -> None:
    """From the first instruction on: the shell that enters the group is in it already."""
    run_group = cgroups.make("run-test")
    try:
        group = cgroups.make_inside(run_group, "greedy")
        group.limit(None, 64)
        hoard = [sys.executable, "-c", "len(bytearray(b'x' * (256 << 20)))"]
        done = subprocess.run(group.enter(hoard), check=False)
        assert done.returncode == -signal.SIGKILL
        assert group.out_of_memory == 1
        modest = subprocess.run(group.enter(["cat", "/proc/self/cgroup"]), capture_output=True)
        assert b"headrace/run-test/greedy" in modest.stdout
    finally:
        assert cgroups.remove(run_group.name)
    assert not any(folder.exists() for folder in run_group.folders)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosting", "direction", "chain"),
    [
        ({}, "forward", "['null']"),
        ({"chains": 2, "active": 1, "wait": "interrupt"}, "forward", "['null', l2fwd]"),
        ({"placement": "random", **LIMITS}, "both", "['null', monitor]"),
    ],
    ids=["pvp", "standing-by", "both-ways"],
)
def test_containers(
    engine_binary: Path,
    tmp_path: Path,
    image: None,
    hosting: dict[str, object],
    direction: str,
    chain: str,
) -> None:
    text = spec({"kind": "container", **hosting}, direction, chain)
    run(tmp_path, engine_binary, text + "collect: [virtualization]\n")
    rows = duckdb.sql(
        f"select direction, counters, anatomy, latency_ns.mean, segments, received, labels "
        f"from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    length, chains = chain.count(",") + 1, int(str(hosting.get("chains", 1)))
    active = int(str(hosting.get("active", chains)))
    way, counters, anatomy, mean, segments, received, labels = rows[-1]
    assert way == direction and "hosting-container" in labels
    assert sum(s["hosting"] == "container" for s in segments) == length * chains
    counters = json.loads(counters) if isinstance(counters, str) else counters
    passed = [r["packets_in"] for r in counters["replicas"] if r["segment"].startswith("vnf")]
    assert sorted(passed)[: length * (chains - active)] == [0] * (length * (chains - active))
    assert sum(passed) == received * length
    parts = sum(anatomy[k] for k in ("generator_ns", "queue_ns", "scheduler_ns", "vnf_ns"))
    assert parts + anatomy["switch_ns"] == pytest.approx(mean, rel=0.01)
    window = sampled(tmp_path)
    assert len(window.now("cgroup_cpu_ns")) == length * chains
    if "cpus" in hosting:
        assert set(window.now("cgroup_cpu_quota_cpus").values()) == {0.5}
    assert state_left(tmp_path) == [] and containers() == []


@pytest.mark.slow
def test_containers_tell_their_host_what_they_decided(
    engine_binary: Path, tmp_path: Path, image: None
) -> None:
    """Their state is theirs, the memory in which they tell of it crosses into each container: most
    packets are spared them, and each is counted at its function all the same."""
    chain = (
        "[{firewall: {rules: [{action: permit}]}}, "
        "{nat: {pool: [203.0.113.1], inside: [198.18.0.0/16]}}]"
    )
    two: dict[str, object] = {"kind": "container", "chains": 2}
    text = spec(two, chain=chain, execution="{model: pipeline, offload: 1024}")
    run(tmp_path, engine_binary, text)
    ((counters, received, reordered, labels),) = duckdb.sql(
        f"select counters, received, reordered, labels from '{tmp_path}/b/trials.parquet' "
        "where phase = 'fixed'"
    ).fetchall()
    counters = json.loads(counters) if isinstance(counters, str) else counters
    assert "hosting-container" in labels and received and not reordered
    offload = counters["offload"].values()
    assert len(offload) == 4 and not any(one["refused"] for one in offload)
    assert 2 * received - sum(one["hits"] for one in offload) < received / 2
    for name in ("firewall", "nat"):
        nfs = (replica["nfs"].get(name) for replica in counters["replicas"])
        assert sum(nf["packets_in"] for nf in nfs if nf) == received
    told = headrace("explain", "b", "--json", folder=tmp_path, engine=engine_binary)
    assert "offload" in [one["rule"] for one in json.loads(told.stdout)]
    assert state_left(tmp_path) == [] and containers() == []


@pytest.mark.slow
def test_killed_containers(engine_binary: Path, tmp_path: Path, image: None) -> None:
    (tmp_path / "spec.yaml").write_text(spec({"kind": "container", "chains": 2}))
    killed_vnfs(tmp_path, engine_binary, 8, 5000, 2, timeout=300)
    assert state_left(tmp_path) == [] and containers() == []


@pytest.mark.slow
def test_killed_run(engine_binary: Path, tmp_path: Path, image: None) -> None:
    """kill -9 of the lab: its VNFs end by themselves, and `clean` removes what they were in."""
    text = spec({"kind": "container", "chains": 2}).replace("trial: 0.5", "trial: 60")
    (tmp_path / "spec.yaml").write_text(text)
    with subprocess.Popen(
        [str(COMMAND), "run", "spec.yaml", "--out", "b"],
        cwd=tmp_path, env=environment(tmp_path, engine_binary),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as victim:  # fmt: skip
        wait_for(lambda: len(containers("running")) == 2, 60)
        wait_for(lambda: not containers("created"), 60)
        time.sleep(2)
        victim.send_signal(signal.SIGKILL)
    wait_for(lambda: not containers("running"), 60)
    done = headrace("clean", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("removed container") == 2
    assert "removed cgroup" in done.stdout
    assert state_left(tmp_path) == [] and containers() == []


def containers(status: str | None = None) -> list[str]:
    """The names of hosted chains' containers."""
    only = [] if status is None else ["--filter", f"status={status}"]
    listing = ["podman", "ps", "--all", *only, "--format", "{{.Names}}"]
    names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if "-vnf" in name]


def wait_for(done: object, seconds: float) -> None:
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)
