# SPDX-License-Identifier: Apache-2.0
"""`headrace offload`: specs that cannot be used are one line and status 2; the comparison runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.analyse.offload import OffloadMode, offload_modes
from headrace.host.openvswitch import dpdk_lacking
from headrace.record.bundle import Bundle
from headrace.record.equivalence import equivalences
from support import lab

pytestmark = pytest.mark.beside

GOOD = """\
name: t
deployment:
  hosting:
    kind: offload
    ports: {core: {}}
    vnfs:
      r1:
        interfaces:
          eth0: {port: core, addresses: [10.0.0.1/24]}
"""


def offload(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command("offload", file, *options)


def run(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command("run", file, *options)


def compared(file: Path, bundle: Path) -> dict[str, OffloadMode]:
    done = run(file, "--out", str(bundle))
    assert done.returncode == 0, done.stderr
    return {one.mode: one for one in offload_modes(Bundle(bundle).results())}


def command(name: str, file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return lab.command((name, file, *options), file.parent, timeout=300)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "port: core",
            "port: cor",
            ("spec.yaml:9: deployment.hosting.vnfs.r1.interfaces.eth0.port", "allowed: core"),
        ),
        (
            "{core: {}}",
            "{core: {device: 'net_af_packet0,iface=none'}}",
            ("spec.yaml:5", "no interface none"),
        ),
        ("{core: {}}", "{core: {device: garbage}}", ("spec.yaml:5", "'garbage'", "a PCI address")),
        ("{core: {}}", "{core: {device: 'ffff:1f:1f.7'}}", ("spec.yaml:5", "no PCI device")),
        (
            "eth0: {port: core, addresses: [10.0.0.1/24]}",
            "eth0: {port: core, addresses: [10.0.0.1/24]}\n"
            "          eth1: {port: core, addresses: [10.0.0.1/25]}",
            ("spec.yaml:10", "10.0.0.1", "hosting.vnfs.r1.interfaces.eth0 has it on port core"),
        ),
        ("10.0.0.1/24", "10.0.0.1", ("spec.yaml:9", "prefix length")),
        ("10.0.0.1/24", "10.0.0.300/24", ("spec.yaml:9", "10.0.0.300")),
        ("{port: core", "{mac: '01:00:00:00:00:01', port: core", ("spec.yaml:9", "MAC")),
        ("eth0:", "averyveryverylongname:", ("averyveryverylongname", "at most 15 in all")),
        (
            "eth0:",
            "lo:",
            ("spec.yaml:9: deployment.hosting.vnfs.r1.interfaces.lo", "'lo'", "another name"),
        ),
        (
            "{core: {}}",
            "{core: {device: 'net_af_packet0,iface=lo'}, b: {device: 'net_af_packet1,iface=lo'}}",
            ("spec.yaml:5: deployment.hosting.ports.b.device", "port core has it"),
        ),
        (
            "ports: {c",
            "lcore: 4096\n    ports: {c",
            ("yaml:5: deployment.hosting.lcore: got 4096", "allowed: 0"),
        ),
        ("name: t", "name: t\nchain: []", ("spec.yaml:2: chain", "got hosting offload")),
        (
            "        interfaces",
            "        routing: {daemon: frr, daemons: [food], config: spec.yaml}\n"
            "        interfaces",
            ("spec.yaml:8: deployment.hosting.vnfs.r1.routing.daemons", "'food'"),
        ),
        ("name: t", "name: t\nports_: 1", ("ports_",)),
        ("name: t", "name: t\nports: {}", ("spec.yaml:2: ports", "hosting: {kind: offload}")),
        ("{core: {}}", "{core: {}}\n    modes: [offload]", ("modes: belongs to a number of",)),
        (
            "        interfaces",
            "        routing: {daemon: frr}\n        interfaces",
            ("needs a config",),
        ),
        (
            "        interfaces",
            "        routing: {daemon: bird, daemons: [bgpd], config: x}\n        interfaces",
            ("daemons are FRR's",),
        ),
        ("        interfaces", "        hold: -1\n        interfaces", ("hold", "-1")),
    ],
)
def test_bad_specs(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "spec.yaml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    done = offload(file, "--check")
    assert done.returncode == 2, done.stdout + done.stderr
    [line] = done.stderr.strip().splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("daemon", "program", "text", "words"),
    [
        ("bird", "bird", "protocol devicee {}\n", "syntax error"),
        ("frr", "vtysh", "router bgp 65001\n neighborx 10.0.0.2\n", "Unknown command"),
    ],
)
def test_a_daemon_refuses_its_configuration(
    tmp_path: Path, daemon: str, program: str, text: str, words: str
) -> None:
    """In its own words, before anything is started."""
    if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"{program} is not installed: scripts/setup.sh offload")
    (tmp_path / "its.conf").write_text(text)
    routing = f"        routing: {{daemon: {daemon}, config: its.conf}}\n        interfaces"
    file = tmp_path / "spec.yaml"
    file.write_text(GOOD.replace("        interfaces", routing, 1))
    done = offload(file, "--check")
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert "spec.yaml:8: deployment.hosting.vnfs.r1.routing.config" in line and words in line


@pytest.mark.parallel
def test_check(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(GOOD)
    done = offload(file, "--check")
    assert (done.returncode, done.stdout) == (0, f"{file}: 1 VNF on 1 port\n")


@pytest.mark.parallel
def test_too_few_flows(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        "name: t\ndeployment: {hosting: {kind: offload, vnfs: 63}}\nworkload: {flows: 62}\n"
    )
    done = run(file, "--check")
    assert done.returncode == 2
    assert "spec.yaml:3: workload.flows: 62 flows; allowed: at least one per VNF, 63" in done.stderr


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("hosting", "measure", "words"),
    [
        ("modes: [offload, offload]", "", ("modes: offload, offload", "each once")),
        ("wire: 5000", "", ("wire: 5000", "power of two")),
        ("vnfs: 63", "search: [nrd]", ("spec.yaml:3", "nrd", "pdr")),
        ("vnfs: 63", "search: [{loss_ratio: 2}]", ("spec.yaml:3", "loss_ratio")),
        ("lcore: 1", "", ("lcore: belongs to `vnfs` by name",)),
    ],
)
def test_bad_comparisons(
    tmp_path: Path, hosting: str, measure: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"name: t\ndeployment: {{hosting: {{kind: offload, {hosting}}}}}\nmeasure: {{{measure}}}\n"
    )
    done = run(file, "--check")
    assert done.returncode == 2, done.stdout + done.stderr
    [line] = done.stderr.strip().splitlines()
    assert all(word in line for word in words), line


@pytest.fixture
def spec_file(
    tmp_path: Path, engine_binary: Path, cpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A comparison in this process has one CPU for traffic, and one that forwards."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs, one for traffic")
    monkeypatch.setenv("HEADRACE_ENGINE", str(engine_binary))
    return tmp_path / "spec.yaml"


@pytest.mark.needs_root
def test_comparison(tmp_path: Path, spec_file: Path) -> None:
    """Every mode's packets come through, while routes change at the rate asked for, or nearly."""
    spec_file.write_text(
        "name: t\ndeployment:\n  hugepages: false\n"
        "  hosting: {kind: offload, vnfs: 3, routes: 64, updates: 2k}\n"
        "workload: {flows: 256}\nwarmup: 0.1\n"
        "measure: {max: true, loads: [2000], trial: 0.4s, pairs: 0}\n"
    )
    modes = compared(spec_file, tmp_path / "b")
    assert list(modes) == ["bare-metal", "offload", "offload-updates"]
    for one in modes.values():
        assert one.rates[0].pps > 0
        assert one.delays[0].ipdv_ns is not None and one.delays[0].ipdv_ns >= 0
        assert one.cycles_per_packet is not None and one.cycles_per_packet > 0
    assert modes["offload"].updates_per_s == 0
    assert modes["offload-updates"].updates_per_s > 100


@pytest.mark.slow
@pytest.mark.needs_root
def test_compared_with(tmp_path: Path, spec_file: Path) -> None:
    """VNFs that forward their own packets: all come through by routes."""
    wanted = ["conventional-poll", "conventional-adaptive", "conventional-interrupt"]
    wanted += ["ovs-dpdk"] if dpdk_lacking() is None else []
    spec_file.write_text(
        "name: t\ndeployment:\n  hugepages: false\n  hosting:\n    kind: offload\n"
        f"    modes: [{', '.join(wanted)}]\n    vnfs: 3\n    routes: 64\n"
        "workload: {flows: 256}\nmeasure:\n  max: true\n  loads: [2000]\n  trial: 1s\n"
        "  search: [{name: most, loss_ratio: 50%, initial_trial: 0.2, "
        "final_trial: 0.2, duration_sum: 0.2, width: 50%}]\n"
    )
    modes = compared(spec_file, tmp_path / "b")
    assert list(modes) == wanted
    for one in modes.values():
        assert one.rates[0].pps > 0 and one.updates_per_s == 0
    assert max(modes[mode].rates[0].times_conventional or 0 for mode in wanted[:3]) == 1.0


@pytest.mark.needs_root
@pytest.mark.skipif(dpdk_lacking() is not None, reason=str(dpdk_lacking()))
def test_a_switch_that_forwards(tmp_path: Path, spec_file: Path) -> None:
    """By the routes of all VNFs, as its own flows: its frames are the plain router's, none is lost,
    and its own counters have those that were sent."""
    spec_file.write_text(
        "name: t\ndeployment:\n  hugepages: false\n"
        "  hosting: {kind: offload, vnfs: 3, routes: 64, modes: [bare-metal, ovs-flows]}\n"
        "workload: {flows: 256}\nwarmup: 0\nmeasure: {loads: [2000], trial: 0.4s}\n"
    )
    modes = compared(spec_file, tmp_path / "b")
    assert list(modes) == ["bare-metal", "ovs-flows"]
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.engine, verdict.verdict) == ("ovs-dpdk", "the same"), verdict
    assert verdict.came >= verdict.own > 0
    trials = {one.execution: one for one in Bundle(tmp_path / "b").trials()}
    assert {one.lost for one in trials.values()} == {0}
    switch = trials["ovs-flows"]
    assert switch.counters is not None
    assert switch.counters.dut["received"] == switch.counters.dut["forward/in"] == switch.sent > 0
