# SPDX-License-Identifier: Apache-2.0
"""Hosted chains behind a switch that is not the host engine's: the kernel's, Open vSwitch."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from headrace.collect.samples import Samples
from headrace.host import hugepages
from headrace.host.openvswitch import dpdk_lacking
from headrace.host.processes import Process
from support.containers import lacking
from support.lab import (
    COMMAND,
    environment,
    headrace,
    killed_vnfs,
    runtime_dir,
    state_left,
    wait_for,
)
from support.netns import netns_refusal

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

ATTEMPTS = 3


def spec(kind: str, network: str, more: str = "", direction: str = "forward") -> str:
    return f"""
name: hosted
chain: ['null', l2fwd]
deployment:
  hosting: {{kind: {kind}{more}}}
  execution: pipeline
  network: {network}
  hugepages: false
workload: {{frame: [128], flows: 60, direction: {direction}}}
warmup: 0
measure: {{loads: [2000], trial: 0.2, drain: 0.5}}
"""


def ours() -> set[str]:
    """Namespaces of VNFs and of switches."""
    named = (path.name for path in Path("/run/netns").glob("hr*"))
    return {name for name in named if "-vnf" in name or "-switch" in name}


def absent(kind: str, network: str) -> str | None:
    """What this machine lacks for it."""
    if network == "ovs-dpdk" and (missing := dpdk_lacking()) is not None:
        return missing
    return netns_refusal() or (lacking("headrace") if kind == "container" else None)


@pytest.mark.parametrize(
    ("kind", "network", "direction"),
    [
        ("process", "bridge", "both"),
        ("process", "ovs-dpdk", "both"),
        pytest.param("container", "bridge", "forward", marks=pytest.mark.slow),
        pytest.param("container", "ovs-dpdk", "forward", marks=pytest.mark.slow),
    ],
)
def test_packets_come_through(
    engine_binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    network: str,
    direction: str,
) -> None:
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    if refusal := absent(kind, network):
        pytest.skip(refusal)
    before = ours()
    (tmp_path / "spec.yaml").write_text(spec(kind, network, direction=direction))
    for _ in range(ATTEMPTS):  # the machine may pause until a queue is full
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        done = headrace(
            "run", "spec.yaml", "--out", "b", "--json",
            folder=tmp_path, engine=engine_binary, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)["results"]
        if not any(result["loss_ratio"] for result in results):
            break
    assert [r["direction"] for r in results][-1] == direction
    assert all(r["loss_ratio"] == 0 and r["received_pps"] > 0 for r in results)
    # The directions' sum: a kernel's bridge and Open vSwitch forget whose a packet is.
    assert [(a["direction"], a["unknown"]) for a in results[-1]["accounts"]] == [(direction, 0)]
    assert ours() == before and state_left(tmp_path) == []
    for anatomy, mean in duckdb.sql(
        f"select anatomy, latency_ns.mean from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall():
        parts = sum(anatomy[f"{k}_ns"] for k in ("generator", "switch", "scheduler", "vnf"))
        assert parts == pytest.approx(mean, rel=0.01)
        assert anatomy["vnf_ns"] > 0 and anatomy["queue_ns"] == 0


def test_all_of_it_on_hugepages(engine_binary: Path, tmp_path: Path) -> None:
    """The tester, Open vSwitch and VNFs hand each other memory of hugepages; the kernel says how
    much of them each has, and all packets come back."""
    if refusal := absent("process", "ovs-dpdk"):
        pytest.skip(refusal)
    text = spec("process", "ovs-dpdk", ", hugepages: true, audit_placement: true", "both")
    text = text.replace("hugepages: false", "hugepages: true").replace("trial: 0.2", "trial: 2")
    (tmp_path / "spec.yaml").write_text(text)
    held = 0
    for _ in range(ATTEMPTS):
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        with subprocess.Popen(
            [COMMAND, "run", "spec.yaml", "--out", "b", "--json"], cwd=tmp_path,
            env=environment(tmp_path, engine_binary), stdout=subprocess.PIPE, text=True,
        ) as lab:  # fmt: skip
            while lab.poll() is None:
                for file in runtime_dir(tmp_path).glob("headrace/run-*/ovs/ovs-vswitchd.pid"):
                    with contextlib.suppress(OSError, ValueError):
                        held = max(held, hugepages.in_use_kb(int(file.read_text())))
                time.sleep(0.05)
            printed = "" if lab.stdout is None else lab.stdout.read()
        assert lab.returncode == 0
        results = json.loads(printed)["results"]
        if not any(result["loss_ratio"] for result in results):
            break
    assert all(r["loss_ratio"] == 0 and r["received_pps"] > 0 for r in results)
    assert "no-huge" not in results[0]["labels"] and "hosting-hugepages" in results[0]["labels"]
    assert held >= 64 << 10
    [places] = json.loads((tmp_path / "b/samples/where.json").read_text()).values()
    pages = hugepages.pool()
    assert pages is not None
    assert {one["name"] for one in places} == {"host", "vnf1.1", "vnf1.2"}
    assert all(one["page_kb"].get(str(pages.page_kb), 0) >= 64 << 10 for one in places)
    assert state_left(tmp_path) == []


def test_the_bridge_between_vnfs_is_read(engine_binary: Path, tmp_path: Path) -> None:
    """It has a namespace of its own, which collectors have to be told."""
    if refusal := netns_refusal():
        pytest.skip(refusal)
    text = spec("process", "bridge") + "collect: [virtual-switch]\n"
    (tmp_path / "spec.yaml").write_text(text)
    done = headrace("run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    samples = Samples(tmp_path / "b" / "samples")
    assert samples.refused == {} and set(samples.layers) == {"virtual-switch"}
    # Two ports of each of two VNFs, and two of the tester: their addresses are known.
    entries = samples.window("virtual-switch").now("bridge_fdb_entries")
    assert set(entries) == {"bridge"} and entries["bridge"] >= 6


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("kind", "network", "more", "message"),
    [
        ("process", "bridge", ", uplink_gbps: 10", "allowed with bridge: none"),
        ("process", "bridge", ", wait: interrupt", "allowed with bridge: poll, adaptive"),
        ("process", "ovs-dpdk", ", switch_gbps: 10", "allowed with ovs-dpdk: none"),
        ("process", "ovs-dpdk", ", wait: interrupt", "allowed with ovs-dpdk: poll, adaptive"),
        ("process", "ovs-dpdk", ", slots: 65536", "allowed with ovs-dpdk: at most 32768"),
        ("process", "ovs-dpdk", ", slots: 4096", "allowed with ovs-dpdk: at least 8192, as"),
        ("process", "linux", "", "deployment.network"),
        ("inline", "bridge", "", "network: bridge joins hosted VNFs"),
        ("inline", "ovs-dpdk", "", "allowed: process, container, vm"),
    ],
)
def test_refused(
    engine_binary: Path, tmp_path: Path, kind: str, network: str, more: str, message: str
) -> None:
    (tmp_path / "spec.yaml").write_text(spec(kind, network, more))
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_switch_and_its_ports_count_alike(engine_binary: Path, tmp_path: Path) -> None:
    """More than a VNF can have: each packet is somewhere, and what its queue had no room for is
    said to be lost there."""
    if refusal := absent("process", "ovs-dpdk"):
        pytest.skip(refusal)
    flood = spec("process", "ovs-dpdk", ", slots: 64").replace("[2000]", "[3M]")
    (tmp_path / "spec.yaml").write_text(flood)
    done = headrace(
        "run", "spec.yaml", "--out", "b", "--json",
        folder=tmp_path, engine=engine_binary, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [(ports, drops)] = duckdb.sql(
        f"select counters.ports, drops from '{tmp_path}/b/trials.parquet' where phase = 'fixed'"
    ).fetchall()
    ports = dict(ports)
    assert len(ports) == 3  # the tester's, and of each VNF one
    for port in ports.values():
        assert port["device_rx"] == port["rx_packets"] > 0
        assert port["device_tx"] == port["tx_packets"] > 0
    missed = {name: port["rx_missed"] for name, port in ports.items() if port["rx_missed"]}
    assert missed == {
        place.removesuffix("/rx-missed"): packets
        for place, packets in dict(drops).items()
        if place.endswith("/rx-missed")
    }
    # What the switch was given it gave, or had no room for.
    given = sum(port["tx_packets"] for port in ports.values())
    assert given == sum(p["rx_packets"] + p["rx_missed"] for p in ports.values())


@pytest.mark.parallel
def test_long_frames_are_refused(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(spec("process", "ovs-dpdk").replace("[128]", "[9000]"))
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "allowed with ovs-dpdk: up to 1518 B" in done.stderr


@pytest.mark.slow
def test_killed_vnfs_are_found_again(engine_binary: Path, tmp_path: Path) -> None:
    """The switch comes to whoever listens anew, and the tester loses no packet buffer."""
    if refusal := absent("process", "ovs-dpdk"):
        pytest.skip(refusal)
    (tmp_path / "spec.yaml").write_text(spec("process", "ovs-dpdk", ", chains: 2"))
    killed_vnfs(tmp_path, engine_binary, 20, 2000, 3, timeout=600, every=4)


def switches(folder: Path) -> set[int]:
    """Open vSwitch's daemons of runs below the folder."""
    return {
        int(pid)
        for file in runtime_dir(folder).rglob("ovs*.pid")
        if (pid := file.read_text().strip()) and Path(f"/proc/{pid}").exists()
    }


@pytest.mark.slow
@pytest.mark.parametrize("network", ["bridge", "ovs-dpdk"])
def test_nothing_is_left_of_a_lab_that_was_killed(
    engine_binary: Path, tmp_path: Path, network: str
) -> None:
    """Its licences are kept by devices and a switch that outlive it."""
    if refusal := absent("process", network):
        pytest.skip(refusal)
    before, daemons = ours(), 2 if network == "ovs-dpdk" else 0
    (tmp_path / "spec.yaml").write_text(
        spec("process", network, ", rate_cap_gbps: 1").replace("trial: 0.2", "trial: 60")
    )
    lab = subprocess.Popen(
        [str(COMMAND), "run", "spec.yaml", "--out", "b"],
        cwd=tmp_path, env=environment(tmp_path, engine_binary),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def deployed() -> bool:
        """All there is of switches, and a bridge's namespaces of VNFs."""
        there = len(ours() - before) >= 3 if network == "bridge" else True
        return there and len(switches(tmp_path)) == daemons

    try:
        assert wait_for(lambda: deployed() or lab.poll() is not None, 300)
        assert lab.poll() is None
    finally:
        os.kill(lab.pid, signal.SIGKILL)
        lab.wait()
    left = switches(tmp_path)
    assert len(left) == daemons and ours() != before
    done = headrace("clean", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert wait_for(lambda: not any(running(pid) for pid in left), 10)
    assert ours() == before and state_left(tmp_path) == []


def running(pid: int) -> bool:
    """Not one that has ended and nobody has asked how."""
    process = Process.of(pid)
    return process is not None and process.alive()
