# SPDX-License-Identifier: Apache-2.0
"""What `headrace plan --server` chooses for VNFs in processes is what `run` takes, and where the
kernel has them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.engine.place import usable_cpus
from headrace.host.programs import shipped
from support.containers import lacking
from support.lab import COMMAND, environment, headrace

SPEC = """
name: hosted
chain: [l2fwd, {name: next, nf: l2fwd}]
deployment: {hosting: {kind: process}, hugepages: false}
workload: {frame: [128], flows: 60}
warmup: 0
measure: {loads: [2000], trial: 0.5, drain: 0.3}
"""


@pytest.mark.parallel
def test_the_same_spec_is_predicted_for_the_server(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("hugepages: false", "network: veb"))
    for arguments in (
        ("plan", "spec.yaml", "--server", "reference", "--within", "2", "--out", "placed.yaml"),
        ("run", "--check", "placed.yaml", "--on", "reference"),
    ):
        done = headrace(*arguments, folder=tmp_path, engine=engine_binary, timeout=300)
        assert done.returncode == 0, done.stderr
    asked = (tmp_path / "spec.yaml").read_text() + "demands: {hosted: {rate: 100k}}\n"
    (tmp_path / "asked.yaml").write_text(asked)
    done = headrace(
        "provision", "asked.yaml", "--server", "reference", "--factor", "1",
        folder=tmp_path, engine=engine_binary,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 × 1 VNF (rtc) at 1:1" in done.stdout


def plan_here(text: str, engine: Path, folder: Path) -> dict[str, Any]:
    """What the plan says of a chain, on a server described as having the lcores that there are;
    `placed.yaml` is the spec that it wrote."""
    reference = (shipped("servers") / "reference.yaml").read_text()
    cores = f"cores_per_socket: {max(usable_cpus()) + 1}"
    (folder / "here.yaml").write_text(reference.replace("cores_per_socket: 2", cores))
    (folder / "spec.yaml").write_text(text)
    done = headrace(
        "plan", "spec.yaml", "--server", "here.yaml", "--within", "2", "--out", "placed.yaml",
        "--json", folder=folder, engine=engine,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def planned(engine_binary: Path, tmp_path: Path) -> dict[str, Any]:
    return plan_here(SPEC, engine_binary, tmp_path)


def test_threads_and_memory_are_where_the_plan_says(
    engine_binary: Path, tmp_path: Path, planned: dict[str, Any]
) -> None:
    """By /proc, of running processes, against what the plan printed, not against the spec."""
    done = headrace(
        "hosting", "where", "placed.yaml", "--json", folder=tmp_path, engine=engine_binary
    )
    assert done.returncode == 0, done.stderr
    [chain] = planned["chains"]
    check_where(json.loads(done.stdout), chain)


def check_where(answer: dict[str, Any], chain: dict[str, Any]) -> None:
    """A chain's threads and memory, by the lcores and the node that the plan printed."""
    assert answer["placement"] == "explicit" and answer["as_placed"]
    host, *vnfs = answer["engines"]
    assert host["name"] == "host"
    for engine, lcores in (
        (host, set(chain["host_cpus"])),
        *((vnf, set(part["cpus"])) for vnf, part in zip(vnfs, chain["segments"], strict=True)),
    ):
        workers = [thread for thread in engine["threads"] if thread["works"]]
        assert {cpu for one in workers for cpu in one["allowed"]} == lcores
        assert {one["cpu"] for one in workers} == lcores
        kb = {int(node): size for node, size in engine["kb"].items()}
        assert sum(kb.values()) > 8 << 10
        assert kb.get(chain["memory_node"], 0) >= 0.9 * sum(kb.values())


SEVERAL = SPEC.replace(
    "chain: [l2fwd, {name: next, nf: l2fwd}]",
    "chains: {edge: [l2fwd], web: [{name: first, nf: l2fwd}, l2fwd]}",
).replace("kind: process", "kind: process, oversubscription: '2:1'")


@pytest.mark.parametrize(
    "kind", ["process", pytest.param("container", marks=pytest.mark.needs_root)]
)
def test_chains_placed_together_are_each_where_the_plan_says(
    engine_binary: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chains of a VNF each; with one lcore beside the host's they share it."""
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    if kind == "container" and (why := lacking("headrace")):
        pytest.skip(why)
    planned = plan_here(SEVERAL.replace("process", kind), engine_binary, tmp_path)
    assert [chain["chain"] for chain in planned["chains"]] == ["edge", "web"]
    for chain in planned["chains"]:
        assert len(chain["segments"]) == 1
        done = headrace(
            "hosting", "where", "placed.yaml", "--group", chain["chain"], "--json",
            folder=tmp_path, engine=engine_binary,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        check_where(json.loads(done.stdout), chain)
    done = headrace("hosting", "where", "placed.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2 and "has groups; allowed: --group edge, web" in done.stderr


def test_a_vnf_that_was_moved_is_not_where_the_plan_says(
    engine_binary: Path, tmp_path: Path, planned: dict[str, Any]
) -> None:
    looking = subprocess.Popen(
        [COMMAND, "hosting", "where", "placed.yaml", "--seconds", "5"], cwd=tmp_path,
        env=environment(tmp_path, engine_binary), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    [chain] = planned["chains"]
    moved = 0
    while looking.poll() is None:  # engines that are asked what they know come and go before
        for tid in _workers(looking.pid, set(chain["segments"][0]["cpus"])):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(tid, usable_cpus())
                moved += 1
        time.sleep(0.2)
    assert looking.stderr is not None
    told = looking.stderr.read()
    assert moved and looking.returncode == 1, told
    assert re.search(r"not where its placement says: vnf\S+: \S+ may run on \[0, 1", told)


@pytest.mark.skipif(len(usable_cpus()) < 2, reason="needs two lcores")
def test_segments_of_a_chain_in_one_engine_are_where_it_says(
    engine_binary: Path, tmp_path: Path
) -> None:
    first, second = sorted(usable_cpus())[:2]
    inline = SPEC.replace(
        "hosting: {kind: process}",
        f"lcores: {{traffic: [{first}, {second}], shared: true}}, execution: {{segments: "
        f"[[l2fwd], [next]], lcores: [[{first}], [{first}, {second}]]}}",
    )
    (tmp_path / "inline.yaml").write_text(inline)
    done = headrace(
        "hosting", "where", "inline.yaml", "--json", folder=tmp_path, engine=engine_binary
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    lcores = {engine["name"]: engine["lcores"] for engine in answer["engines"]}
    assert [first] in lcores.values() and [first, second] in lcores.values()
    for engine in answer["engines"]:
        assert sorted(one["cpu"] for one in engine["threads"]) == engine["lcores"]
        assert all(one["allowed"] == [one["cpu"]] for one in engine["threads"])


@pytest.mark.skipif(len(usable_cpus()) < 2, reason="needs two lcores")
def test_replicas_of_a_plan_have_the_parts_of_its_table(
    engine_binary: Path, tmp_path: Path
) -> None:
    """A chain in the tester's engine as it was planned for a server with the lcores that there are:
    its queues' lcores have its replicas, and each gets the packets of its part of the table, here
    by the writer's."""
    inline = SPEC.replace("hosting: {kind: process}, ", "").replace("flows: 60", "flows: 4096")
    [chain] = plan_here(inline, engine_binary, tmp_path)["chains"]
    assert len(chain["queues"]) > 1 and sum(chain["buckets"]) == 128
    placed = yaml.safe_load((tmp_path / "placed.yaml").read_text())
    [group] = placed.pop("groups").values()
    del placed["ground"]
    (tmp_path / "real.yaml").write_text(yaml.safe_dump({**placed, **group["spec"]}))
    done = headrace(
        "hosting", "where", "real.yaml", "--rate", "20000", "--json",
        folder=tmp_path, engine=engine_binary,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    planned = [set(part["cpus"]) for part in chain["segments"]]
    parts = [one for one in answer["engines"] if one["packets"]]
    assert [set(one["lcores"]) for one in parts] == planned
    got = {int(cpu): packets for cpu, packets in parts[0]["packets"].items()}
    assert set(got) == set(chain["queues"])
    for cpu, buckets in zip(chain["queues"], chain["buckets"], strict=True):
        assert got[cpu] / sum(got.values()) == pytest.approx(buckets / 128, abs=0.04)


def _workers(parent: int, lcores: set[int]) -> list[int]:
    """Threads that carry packets on these lcores, of engines below a process."""
    workers = []
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            name = (task / "comm").read_text()
            own = _is_below(int(task.parts[2]), parent)
        except OSError:
            continue
        if own and re.match("(?:lcore|rte)-worker", name):
            tid = int(task.name)
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(tid) == lcores:
                    workers.append(tid)
    return workers


def _is_below(pid: int, parent: int) -> bool:
    while pid > 1 and pid != parent:
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return pid == parent
