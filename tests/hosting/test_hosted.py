# SPDX-License-Identifier: Apache-2.0
"""Chains hosted in processes, as a user runs them: topologies, features, what is refused, and what
is left of VNFs that were killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from headrace.cli._testdata import valid
from headrace.model.lines_between import same_state
from support.lab import (
    COMMAND,
    environment,
    headrace,
    killed_vnfs,
    runtime_dir,
    state_left,
    wait_for,
)

pytestmark = pytest.mark.beside

ATTEMPTS = 3
ACL = "{acl: {rules: [{action: permit}], default: deny}}"


def spec(chain: str, hosting: str, more: str = "", network: str = "veb") -> str:
    return f"""
name: hosted
chain: {chain}
deployment:
  hosting: {hosting}
  network: {network}
  hugepages: false
  {more}
workload: {{frame: [128], flows: 60}}
warmup: 0
measure: {{loads: [2000], trial: 0.2, drain: 0.2}}
"""


def run(folder: Path, engine: Path, text: str, attempts: int = ATTEMPTS) -> dict[str, Any]:
    """Once more where the machine paused so long that a queue was full, or a path looked cut: what
    is tested is where packets go, not that this machine has time for them."""
    (folder / "spec.yaml").write_text(text)
    for _ in range(attempts):
        shutil.rmtree(folder / "b", ignore_errors=True)
        done = headrace(
            "run", "spec.yaml", "--out", "b", "--json", folder=folder, engine=engine, timeout=900
        )
        assert state_left(folder) == []
        printed: dict[str, Any] = valid("run", done.stdout) if done.returncode == 0 else {}
        if printed and not any(result["loss_ratio"] for result in printed["results"]):
            break
    assert done.returncode == 0, done.stderr
    return printed


def line_of(bundle: Path) -> tuple[float, float]:
    """TSC cycles of a line of another lcore, and the share of a trial that says so."""
    query = f"select line_cycles, line_share from '{bundle}/trials.parquet' where phase = 'fixed'"
    [row] = duckdb.sql(query).fetchall()
    return row


def test_trials_tell_what_a_line_between_host_and_vnf_costs(
    engine_binary: Path, tmp_path: Path
) -> None:
    """By looks at it before and behind each; an engine of the same two lcores reads as much in its
    slices, unless the host moves a CPU in between."""
    if subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode:
        pytest.skip("this user may not have lcores before others")
    on = "lcores: {traffic: [0], chain: [1]}"
    inline = spec("[l2fwd]", "inline", on).replace("  network: veb\n", "")
    for _ in range(ATTEMPTS):
        run(tmp_path, engine_binary, spec("[l2fwd]", "process", on))
        apart, share = line_of(tmp_path / "b")
        run(tmp_path, engine_binary, inline.replace("trial: 0.2", "trial: 0.5"))
        inside, _ = line_of(tmp_path / "b")
        if share == 1 and same_state(apart, inside):
            break
    assert share == 1 and same_state(apart, inside), (apart, share, inside)


@pytest.mark.parametrize(
    ("chain", "hosting", "more", "network", "vnfs"),
    [
        ("[l2fwd]", "process", "", "veb", 1),
        ("[l2fwd]", "{kind: process, chains: 4, active: 3}", "", "veb", 4),
        (f"['null', {ACL}]", "{kind: process, wait: interrupt}", "execution: pipeline", "veb", 2),
        (f"['null', {ACL}]", "{kind: process, chains: 2}", "execution: pipeline", "vepa", 4),
        (
            f"['null', {ACL}, monitor]",
            "{kind: process, placement: random}",
            "execution: {segments: [['null'], [acl, monitor]]}",
            "veb",
            2,
        ),
        ("['null', 'null', 'null', 'null', 'null']", "process", "execution: pipeline", "veb", 5),
    ],
    ids=["pvp", "parallel", "pvvp-veb", "pvvp-vepa", "multi-feature", "snake"],
)
def test_topologies(
    engine_binary: Path,
    tmp_path: Path,
    chain: str,
    hosting: str,
    more: str,
    network: str,
    vnfs: int,
) -> None:
    [result] = run(tmp_path, engine_binary, spec(chain, hosting, more, network))["results"]
    assert result["received_pps"] > 0
    assert result["loss_ratio"] == 0
    trials = duckdb.sql(
        f"select counters, anatomy, latency_ns.mean as mean, segments, received, lost, reordered "
        f"from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    [(counters, anatomy, mean, segments, received, lost, reordered)] = trials
    counters = json.loads(counters) if isinstance(counters, str) else counters
    hosted = [s for s in segments if s["hosting"] == "process"]
    assert len(hosted) == vnfs
    passed = {
        r["segment"]: r["packets_in"]
        for r in counters["replicas"]
        if r["segment"].startswith("vnf")
    }
    assert len(passed) == vnfs
    assert all(one["unknown"] == 0 for one in result["accounts"])
    # Every packet went through each VNF of its chain, and standing ones saw none.
    active = [name for name in passed if not ("active" in hosting and name.startswith("vnf4"))]
    chains = {name.split(".")[0] for name in active}
    length = len(active) // len(chains)
    assert lost == 0 and reordered == 0
    assert sum(passed[name] for name in active) == received * length
    assert all(passed[name] == 0 for name in passed if name not in active)
    parts = sum(anatomy[k] for k in ("generator_ns", "queue_ns", "scheduler_ns", "vnf_ns"))
    assert parts + anatomy["switch_ns"] == pytest.approx(mean, rel=0.01)
    assert anatomy["vnf_ns"] > 0


@pytest.mark.parametrize(
    ("chain", "hosting", "more", "network"),
    [
        ("[l2fwd]", "{kind: process, chains: 2}", "", "veb"),
        (f"['null', {ACL}]", "process", "execution: pipeline", "veb"),
        ("['null', monitor, l2fwd]", "process",
         "execution: {segments: [['null', monitor], [l2fwd]]}", "vepa"),
    ],
    ids=["pvp", "pvvp-veb", "pvvp-vepa"],
)  # fmt: skip
def test_both_ways(
    engine_binary: Path, tmp_path: Path, chain: str, hosting: str, more: str, network: str
) -> None:
    """Each direction comes in by its own wire and leaves by the other; all VNFs see both."""
    text = spec(chain, hosting, more, network)
    text = text.replace("flows: 60", "flows: 60, direction: both")
    results = run(tmp_path, engine_binary, text)["results"]
    assert [r["direction"] for r in results] == ["forward", "reverse", "both"]
    assert all(r["accounts"] and r["accounts"][0]["unknown"] == 0 for r in results)
    assert all(r["loss_ratio"] == 0 and r["received_pps"] > 0 for r in results)
    rows = duckdb.sql(
        f"select direction, counters, anatomy, latency_ns.mean, received, reordered "
        f"from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    came = {direction: received for direction, *_, received, _ in rows}
    assert came["both"] == came["forward"] + came["reverse"]
    counters = json.loads(rows[0][1]) if isinstance(rows[0][1], str) else rows[0][1]
    vnfs = [r for r in counters["replicas"] if r["segment"].startswith("vnf")]
    inputs = [r["inputs"] for r in vnfs]
    chains = 2 if "chains" in hosting else 1
    length = len(vnfs) // chains
    for name, direction in (("left", "forward"), ("right", "reverse")):
        assert sum(one[name] for one in inputs) == came[direction] * length
    for _, _, anatomy, mean, _, reordered in rows:
        assert reordered == 0
        parts = sum(anatomy[k] for k in ("generator_ns", "queue_ns", "scheduler_ns", "vnf_ns"))
        assert parts + anatomy["switch_ns"] == pytest.approx(mean, rel=0.01)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spec("['null']", "pod"), "allowed: inline, process, container"),
        (spec("['null']", "{kind: process, chains: 64}"), "hosting.chains"),
        (
            spec("['null', 'null']", "{kind: process, chains: 40}", "execution: pipeline"),
            "40 chains of 2 VNFs are 80; allowed: 63 VNFs",
        ),
        (spec("['null']", "{kind: process, active: 2}"), "active: 2 of 1 chains"),
        (spec("['null']", "{kind: process, placement: explicit}"), "go together"),
        (
            spec("['null']", "{kind: process, oversubscription: twice}"),
            'allowed: "1:1", "2:1", "4:1"',
        ),
        (
            spec("['null']", "{kind: process, chains: 32}").replace(
                "flows: 60", "flows: 60, direction: both"
            ),
            "allowed: 31 VNFs, the virtual functions of a port, two for each VNF with traffic both",
        ),
        (spec("['null']", "{kind: process, memory_limit_mb: 127}"), "memory_limit_mb"),
        (
            spec("['null']", "{kind: process, memory_mb: 128, memory_limit_mb: 128}"),
            "memory_limit_mb: 128; allowed: at least 192",
        ),
        (
            spec("['null']", "{kind: process, memory_limit_mb: 200, slots: 16384}"),
            "memory_limit_mb: 200; allowed: at least 251",
        ),
        (
            spec("['null']", "{kind: process, hugepages: true}"),
            "hugepages: false, with hosting.hugepages: true; allowed with that: auto, true",
        ),
        (
            spec("['null']", "{kind: vm, hugepages: true}"),
            "hugepages: true, with kind vm; allowed: with kind process or container",
        ),
        (
            spec(
                "['null']", "{kind: process, hugepages: true, memory_limit_mb: 200, slots: 65536}"
            ).replace("hugepages: false", ""),
            "memory_limit_mb: 200; allowed: at least 583, 583 for the program and its links",
        ),
        (spec("['null']", "{kind: process, cpus: 2}"), "hosting.cpus"),
        (spec("['null']", "{kind: process, slots: 1000}"), "slots: 1000; allowed: a power of two"),
    ],
)
def test_refused(engine_binary: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    done = headrace("run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert state_left(tmp_path) == []


def test_uplink_limits(engine_binary: Path, tmp_path: Path) -> None:
    """20 Mbit/s offered on a wire of 10: what is lost is lost there, and said to be."""
    text = spec("['null']", "{kind: process, uplink_gbps: 0.01}")
    text = text.replace("loads: [2000]", "loads: [16900]").replace("trial: 0.2", "trial: 2")
    [result] = run(tmp_path, engine_binary, text, attempts=1)["results"]
    if result["sent_pps"] < 12000:
        pytest.skip(f"the machine made {result['sent_pps']:.0f} of 16900 packets/s only")
    assert set(result["drops"]) == {"nic/uplink-in"}
    assert result["throughput_gbps_l1"] < 0.0115


def test_killed_vnfs(engine_binary: Path, tmp_path: Path) -> None:
    """A few seconds of what studies/hosting-chaos.yaml does for ten minutes."""
    (tmp_path / "spec.yaml").write_text(spec("[l2fwd]", "{kind: process, chains: 3}"))
    outcome = killed_vnfs(tmp_path, engine_binary, 4, 5000, 3, every=0.8)
    assert outcome["mbufs_after"] <= outcome["mbufs_before"]


def test_killed_vnfs_go_on_with_their_flows(engine_binary: Path, tmp_path: Path) -> None:
    """A few seconds of what studies/hosting-checkpoints.yaml does for ten minutes."""
    chain = "[{firewall: {rules: [{action: permit}]}}, {nat: {pool: [203.0.113.1]}}]"
    hosting = "{kind: process, chains: 3, checkpoint: 100 ms}"
    (tmp_path / "spec.yaml").write_text(spec(chain, hosting, "execution: rtc"))
    taken = killed_vnfs(tmp_path, engine_binary, 4, 5000, 3, every=0.8)["taken"]
    assert taken["restarts"] >= 3 and taken["restored"] > 0 and taken["refused"] == 0
    assert taken["live"] == taken["restored"] + taken["expired"] + taken["lost"]
    assert taken["most_at_once"] <= 1024


def test_vnfs_that_are_replaced_lose_nothing(engine_binary: Path, tmp_path: Path) -> None:
    """A few seconds of what studies/hosting-handed-over.yaml does for a minute; the audit's check
    `handed-over` has no loss at all."""
    chain = "[{firewall: {rules: [{action: permit}]}}, {nat: {pool: [203.0.113.1]}}]"
    hosting = "{kind: process, chains: 3, checkpoint: 60 s}"
    (tmp_path / "spec.yaml").write_text(spec(chain, hosting, "execution: rtc"))
    outcome = killed_vnfs(tmp_path, engine_binary, 4, 3000, 3, every=0.8, how="handed-over")
    taken, over = outcome["taken"], outcome["handed_over"]
    assert taken["live"] == taken["restored"] > 0
    assert (taken["lost"], taken["expired"], taken["refused"]) == (0, 0, 0)
    assert outcome["received"] == outcome["sent"]
    assert over["waited"] > 0 == over["late"]


@pytest.mark.parametrize(
    ("hosting", "execution", "says"),
    [
        ("{kind: process}", "rtc", "allowed with: hosting.checkpoint"),
        (
            "{kind: process, checkpoint: 1 s}", "{model: rtc, offload: true}",
            "rtc offloaded has offload; allowed: executions without",
        ),
    ],
)  # fmt: skip
def test_who_cannot_be_replaced_is_told(
    engine_binary: Path, tmp_path: Path, hosting: str, execution: str, says: str
) -> None:
    text = spec("[{firewall: {default: permit}}]", hosting, f"execution: [{execution}]")
    study = yaml.safe_load(text)
    study["measure"] = {"loads": [1000], "chaos": {"how": "handed-over"}}
    (tmp_path / "spec.yaml").write_text(json.dumps(study))
    done = headrace("run", "--check", "spec.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "measure.chaos.how: handed-over" in done.stderr and says in done.stderr


STOPPED = """
name: stopped
chain: ['null']
deployment: {hosting: {kind: process, wait: poll, slots: 64}, hugepages: false}
workload: {frame: [128], flows: 60}
warmup: 0.2
measure: {loads: [20000], trial: 2}
"""


def engines_of(folder: Path) -> list[int]:
    """VNFs' engines of a run that this folder began."""
    engines = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = cmdline.read_bytes().decode(errors="replace").split("\0")
            mine = any(word.startswith(str(runtime_dir(folder))) for word in words)
            if (
                mine
                and "--plan" in words
                and words[words.index("--plan") + 1].endswith("v1/plan.json")
            ):
                engines.append(int(cmdline.parent.name))
    return engines


def trial_runs(folder: Path) -> bool:
    """Whether the trial behind the warm-up has sent for a third of a second or more."""
    [control] = runtime_dir(folder).glob("headrace/run-*/control.sock")
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rw") as lines:
        client.connect(str(control))
        lines.write('{"cmd": "read"}\n')
        lines.flush()
        links = json.loads(lines.readline())["links"].values()
    sources = [one for one in links if "intended" in one]
    return any(one["state"] == "running" and one["sent"] > 7000 for one in sources)


def test_a_vnf_that_stood_still_is_told(engine_binary: Path, tmp_path: Path) -> None:
    """Stopped for 0.3 s of a trial of 2 s: what it lost is not the chain's."""
    (tmp_path / "spec.yaml").write_text(STOPPED)
    with subprocess.Popen(
        [COMMAND, "run", "spec.yaml", "--out", "b", "--json"], cwd=tmp_path,
        env=environment(tmp_path, engine_binary), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as run:  # fmt: skip
        journal = tmp_path / "b" / "trials.jsonl"
        assert wait_for(lambda: journal.exists() and '"warm-up"' in journal.read_text(), 120)
        assert wait_for(lambda: trial_runs(tmp_path), 60)
        [pid] = engines_of(tmp_path)
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        stopped_s = time.monotonic() - stopped
        out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    [result] = json.loads(out)["results"]
    assert result["lost"] > 0.05 * result["sent"]
    [finding] = [f for f in result["audit"]["findings"] if f["check"] == "standstill"]
    assert not finding["ok"] and finding["text"].startswith("VNF vnf1.1's lcore")
    # Readings are before and behind the trial, and take their time where the machine is busy.
    assert stopped_s / 3 < finding["value"] < stopped_s / 2 + 0.05
    assert result["audit"]["verdict"] != "ok"
    assert all(one["unknown"] == 0 for one in result["accounts"])


def test_frames_of_4000_bytes_go_through(engine_binary: Path, tmp_path: Path) -> None:
    text = spec("['null']", "process").replace("frame: [128]", "frame: {genome: az, z: 4000}")
    [result] = run(tmp_path, engine_binary, text)["results"]
    assert result["loss_ratio"] == 0
    accounts = {one["size"]: one for one in result["accounts"]}
    assert set(accounts) == {"all", "64", "1519-"}
    assert accounts["1519-"]["received"] == accounts["1519-"]["sent"] > 0
    assert result["throughput_gbps_l2"] == pytest.approx(
        result["throughput_pps"] * (64 + 4000) / 2 * 8 / 1e9, rel=0.01
    )


NAT = "{nat: {pool: [203.0.113.1], inside: [198.18.0.0/16]}}"


def test_offloaded_state_beside_the_conventional_way(engine_binary: Path, tmp_path: Path) -> None:
    """Two executions of one study, of two VNFs one behind the other: none lost, all counted."""
    chain = f"[{{firewall: {{rules: [{{action: permit}}]}}}}, {NAT}]"
    more = "execution: [pipeline, {model: pipeline, offload: 1024}]"
    # Long enough that most packets are of flows whose first ones were decided.
    text = spec(chain, "{kind: process, chains: 2}", more).replace("trial: 0.2", "trial: 0.5")
    results = run(tmp_path, engine_binary, text)["results"]
    assert [one["execution"] for one in results] == ["pipeline", "pipeline offloaded"]
    assert not any(one["unknown"] for result in results for one in result["accounts"])
    trials = duckdb.sql(
        f"select execution, counters, received, lost, reordered from '{tmp_path}/b/trials.parquet' "
        "where phase = 'fixed' order by execution"
    ).fetchall()
    assert [(lost, reordered) for *_, lost, reordered in trials] == [(0, 0), (0, 0)]
    plain, offloaded = (
        json.loads(counters) if isinstance(counters, str) else counters
        for _, counters, *_ in trials
    )
    assert not plain["offload"]
    received = trials[1][2]
    taken = sum(one["hits"] for one in offloaded["offload"].values())
    assert len(offloaded["offload"]) == 4 and 2 * received - taken < received / 2
    for name in ("firewall", "nat"):
        nfs = (replica["nfs"].get(name) for replica in offloaded["replicas"])
        assert sum(nf["packets_in"] for nf in nfs if nf) == received
    report = headrace("report", "b", folder=tmp_path, engine=engine_binary)
    assert "Offloaded state" in report.stdout
    explained = headrace("explain", "b", folder=tmp_path, engine=engine_binary)
    assert "of the packets what their VNF had decided" in " ".join(explained.stdout.split())


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("chain", "hosting", "more", "words"),
    [
        ("[monitor]", "process", "", "has to see each packet; allowed with offload: acl"),
        ("[nat]", "vm", "", "allowed with hosting process or container"),
        ("[nat]", "inline", "", "allowed with hosting process or container"),
        ("[nat]", "process", "network: bridge", "network veb or vepa"),
        ("[firewall]", "process", "both", "allowed: direction forward or reverse"),
    ],
)
def test_what_cannot_be_offloaded_is_refused(
    engine_binary: Path, tmp_path: Path, chain: str, hosting: str, more: str, words: str
) -> None:
    text = spec(chain, hosting, "execution: {model: rtc, offload: true}")
    if more.startswith("network"):
        text = text.replace("network: veb", more)
    if more == "both":
        text = text.replace("flows: 60}", "flows: 60, direction: both}")
    (tmp_path / "spec.yaml").write_text(text.replace("[nat]", f"[{NAT}]"))
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2 and words in done.stderr, done.stderr
