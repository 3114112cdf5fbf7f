# SPDX-License-Identifier: Apache-2.0
"""Chains between ports, as a user runs them, over wires on which somebody else counts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.collect.samples import Samples
from headrace.host.processes import Process
from headrace.record.bundle import Bundle
from support.engines import whole
from support.lab import COMMAND, environment, headrace, runtime_dir, state_left, wait_for
from support.netns import Lan, ip
from support.wires import counted, wire

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

LEFT, RIGHT, IN, OUT = "hrleft", "hrright", "hrin", "hrout"
SPEC = """
name: wired
chain: [l2fwd]
testbed:
  ports:
    left: {{device: "{left}"}}
    right: {{device: "{right}"}}
    in: {{device: "{entry}"}}
    out: {{device: "{out}"}}
  tester: [left, right]
  chain: [in, out]
deployment: {{hugepages: false, memory_mb: 256}}
workload: {{direction: {direction}}}
warmup: 0
measure: {measure}
"""


def run(folder: Path, engine: Path, namespace: str, spec: str) -> dict[str, Any]:
    (folder / "spec.yaml").write_text(spec)
    done = headrace(
        "run", "spec.yaml", "--out", "b", "--json", folder=folder, engine=engine, netns=namespace
    )
    assert done.returncode == 0, done.stderr
    assert state_left(folder) == []
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def spec_of(kind: str, measure: str, direction: str = "forward") -> str:
    left, right, entry, out = (f"{kind}:{name}" for name in (LEFT, RIGHT, IN, OUT))
    return SPEC.format(
        left=left, right=right, entry=entry, out=out, measure=measure, direction=direction
    )


def carried(folder: Path, direction: str) -> int:
    """Packets of all trials of one direction, of which none was lost."""
    trials = [one for one in Bundle(folder / "b").trials() if one.direction == direction]
    assert trials
    for one in trials:
        assert (one.lost, one.drops) == (0, {})
        assert one.audit.verdict in ("ok", "suspect", "generator-bound"), one.audit
    assert sum(one.received for one in trials) == sum(one.sent for one in trials)
    return sum(one.sent for one in trials)


@pytest.mark.parametrize(
    "kind",
    ["af_xdp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("af_packet", "pcap"))],
)
def test_veth(lan: Lan, engine_binary: Path, tmp_path: Path, kind: str) -> None:
    """Both ways: nftables counts as many packets on each of four ways as we say were sent, and
    received, and as our ports and the kernel's interfaces count."""
    engines, wires = lan.namespace("e"), lan.namespace("w")
    wire(lan, wires, {LEFT: engines, IN: engines})
    wire(lan, wires, {RIGHT: engines, OUT: engines})
    run(tmp_path, engine_binary, engines, spec_of(kind, "{loads: [2k], trial: 0.5}", "both"))
    there, back = (carried(tmp_path, direction) for direction in ("forward", "reverse"))
    [both] = [one for one in Bundle(tmp_path / "b").trials() if one.direction == "both"]
    assert whole(both, 2000)
    # One more proved each way before the trial. Packets of one way leave by LEFT and OUT, those of
    # the other by RIGHT and IN.
    leave = {LEFT: there, IN: back, RIGHT: back, OUT: there}
    assert {name: counted(lan, wires, name) for name in leave} == {
        name: sent + 1 for name, sent in leave.items()
    }
    assert both.counters is not None
    for name, port in both.counters.ports.items():
        sent = leave[f"hr{name}"]
        assert {port.tx_packets, port.device_tx} == {sent}
        assert {port.rx_packets, port.device_rx} == {there + back - sent}
        assert (port.rx_missed, port.up) == (0, True)


def test_several_lcores_make_and_measure(
    lan: Lan, engine_binary: Path, tmp_path: Path, cpus: list[int]
) -> None:
    """Each generator sends its half of the rate by a queue of its own, the ports' queues spread
    flows over those who measure, and nftables counts all of it."""
    if len(cpus) < 2:
        pytest.skip("one CPU: nobody to share the traffic with")
    engines, wires = lan.namespace("e"), lan.namespace("w")
    wire(lan, wires, {LEFT: engines, RIGHT: engines})
    spec = {
        "name": "several",
        "chain": [],
        "testbed": {
            "ports": {name: {"device": f"af_packet:{name}"} for name in (LEFT, RIGHT)},
            "tester": [LEFT, RIGHT],
            "dut": "external",
        },
        "deployment": {
            "hugepages": False, "memory_mb": 256,
            "lcores": {"traffic": cpus[:2], "generators": 2},
        },
        "workload": {"flows": 64},
        "warmup": 0,
        "measure": {"loads": [2000], "trial": 1},
    }  # fmt: skip
    run(tmp_path, engine_binary, engines, json.dumps(spec))
    sent = carried(tmp_path, "forward")
    assert sent == 2000 and counted(lan, wires, LEFT) == sent + 1
    [trial] = Bundle(tmp_path / "b").trials()
    assert trial.counters is not None and (trial.duplicated, trial.reordered) == (0, 0)
    took = {(r.segment, r.cpu): r.packets_in for r in trial.counters.replicas}
    assert set(took) == {(name, cpu) for name in ("generator", "sink") for cpu in cpus[:2]}
    assert [took["generator", cpu] for cpu in cpus[:2]] == [1000, 1000]
    assert all(0 < took["sink", cpu] < sent for cpu in cpus[:2])


def test_tap(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """TAPs that are there already, joined by bridges of the kernel's; both engines' own counters
    are sampled meanwhile."""
    engines = lan.namespace("e")
    for one, other in ((LEFT, IN), (RIGHT, OUT)):
        ip("-n", engines, "link", "add", f"br{one}", "type", "bridge", "mcast_snooping", "0")
        ip("-n", engines, "link", "set", f"br{one}", "up")
        for name in (one, other):
            ip("-n", engines, "tuntap", "add", name, "mode", "tap", "multi_queue")
            ip("-n", engines, "link", "set", name, "up", "master", f"br{one}")
    spec = spec_of("tap", "{loads: [2k], trial: 0.5}")
    spec += "collect: {layers: [application], period: 0.1}\n"
    run(tmp_path, engine_binary, engines, spec)
    sent = carried(tmp_path, "forward")
    [trial] = Bundle(tmp_path / "b").trials()
    assert trial.counters is not None
    ports = {name: (p.device_rx, p.device_tx) for name, p in trial.counters.ports.items()}
    assert ports == {"left": (0, sent), "in": (sent, 0), "out": (0, sent), "right": (sent, 0)}
    received = Samples(tmp_path / "b" / "samples").window("application").change("rx_packets")
    by_port = {place.rpartition("/")[2]: packets for place, packets in received.items()}
    assert {n: by_port.get(n) for n in ports} == {n: came for n, (came, _) in ports.items()}


def test_memif(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """Two programs; the search's own rate goes through whole."""
    folder = runtime_dir(tmp_path)  # a path that is short enough
    left, right = f"memif:{folder}/l", f"memif:{folder}/r"
    goals = "{initial_trial: 0.2, final_trial: 0.2, duration_sum: 0.4, width: 20%}"
    measure = f"{{search: [ndr], max_load: 20k, goals: {goals}, pairs: 0}}"
    spec = SPEC.format(
        left=left, entry=left, right=right, out=right, measure=measure, direction="forward"
    )
    printed = run(tmp_path, engine_binary, lan.namespace("e"), spec)
    [result] = printed["results"]
    assert (result["goal"], result["loss_ratio"], result["drops"]) == ("ndr", 0, {})
    assert result["throughput_pps"] == pytest.approx(result["load_pps"], rel=0.05)
    for trial in Bundle(tmp_path / "b").trials():
        assert trial.counters is not None
        ports = trial.counters.ports
        assert ports["left"].tx_packets == trial.sent - trial.drops.get("left/full", 0)
        assert ports["right"].rx_packets == trial.received


@pytest.mark.skipif(shutil.which("dpdk-testpmd") is None, reason="no dpdk-testpmd: `make setup`")
def test_testpmd_between_vhost_ports(
    lan: Lan, engine_binary: Path, tmp_path: Path, cpus: list[int]
) -> None:
    """An external device, which counts for itself, and whose counters are in the trial's record."""
    folder = runtime_dir(tmp_path)
    log = tmp_path / "testpmd.log"
    lcores = f"--lcores=0@{cpus[-1]},1@{cpus[-1]}"  # the tester has the first CPU
    command = [
        "sh", "-c", f'exec "$@" >{log} 2>&1', "sh", "dpdk-testpmd", lcores, "--no-pci",
        "--no-huge", "--no-shconf", "--single-file-segments", "--iova-mode=va", "-m", "256",
        "--file-prefix=hr-test",
        # Queues that take all packets of the trial: a neighbour may have its CPU meanwhile.
        f"--vdev=net_virtio_user0,path={folder}/l,queue_size=1024",
        f"--vdev=net_virtio_user1,path={folder}/r,queue_size=1024",
        "--", "--forward-mode=io", "--auto-start", "--stats-period=1", "--total-num-mbufs=8192",
    ]  # fmt: skip
    forwards = "until grep -q 'start packet forwarding'"
    spec = {
        "name": "external",
        "chain": [],
        "testbed": {
            "ports": {
                "left": {"device": f"vhost:{folder}/l"},
                "right": {"device": f"vhost:{folder}/r"},
            },
            "tester": ["left", "right"],
            "dut": {
                "start": command,
                "configure": [["sh", "-c", f"{forwards} {log}; do sleep 0.1; done"]],
                "read": ["sh", "-c", "date +'{\"ms\": %s%3N}'"],
            },
        },
        "deployment": {"hugepages": False, "memory_mb": 256},
        "warmup": 0,
        "measure": {"loads": [1000], "trial": 0.5},
    }
    run(tmp_path, engine_binary, lan.namespace("e"), json.dumps(spec))
    sent = carried(tmp_path, "forward")
    totals = re.findall(
        r"Accumulated.*?RX-packets: (\d+).*?TX-packets: (\d+)", log.read_text(), re.S
    )
    assert totals == [(str(sent + 1), str(sent + 1))]
    [trial] = Bundle(tmp_path / "b").trials()
    assert trial.counters is not None
    assert 500 <= trial.counters.dut["ms"] < 10_000, "the clock went on for as long as the trial"


def test_what_a_kill_leaves_is_undone(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """An external device is ended, and its tester's interfaces are as they were."""
    engines = lan.namespace("e")
    lan.veth((engines, LEFT), (engines, RIGHT))
    for name in (LEFT, RIGHT):
        lan.sysctl(engines, f"net.ipv6.conf.{name}.disable_ipv6", "0")
    spec = {
        "name": "killed",
        "chain": [],
        "testbed": {
            "ports": {name: {"device": f"af_xdp:{name}"} for name in (LEFT, RIGHT)},
            "tester": [LEFT, RIGHT],
            "dut": {"start": ["sleep", "1000"]},
        },
        "deployment": {"hugepages": False, "memory_mb": 256},
        "measure": {"loads": [1000], "trial": 60},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    command = ["ip", "netns", "exec", engines, str(COMMAND), "run", "spec.yaml", "--out", "b"]
    environ = environment(tmp_path, engine_binary)
    lab = subprocess.Popen(command, cwd=tmp_path, env=environ)
    state = runtime_dir(tmp_path) / "headrace"
    try:
        assert wait_for(lambda: [f for f in state.glob("run-*/dut.pid") if f.read_text()], 60)
        device = Path("/proc") / next(state.glob("run-*/dut.pid")).read_text().strip()
        assert wait_for(lambda: b"sleep" in (device / "cmdline").read_bytes(), 5)
        assert disabled(lan, engines) == ["1", "1"]
    finally:
        lab.kill()
        lab.wait()
    done = headrace("clean", folder=tmp_path, engine=engine_binary, netns=engines)
    assert done.returncode == 0, done.stderr
    assert Process.of(int(device.name)) is None  # a child that nobody waits for stays as a zombie
    assert disabled(lan, engines) == ["0", "0"]
    assert state_left(tmp_path) == []


def disabled(lan: Lan, namespace: str) -> list[str]:
    """Whether IPv6 is off at each of the tester's interfaces."""
    files = (f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6" for name in (LEFT, RIGHT))
    return lan.inside(namespace, "cat", *files).split()
