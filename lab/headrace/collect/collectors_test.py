# SPDX-License-Identifier: Apache-2.0
"""Collectors against the same fact read another way, on the machine that the tests run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.collect import Sampler, Targets, collectors
from headrace.collect.application import leaves
from headrace.collect.collector import WatchedProcess, pairs
from headrace.collect.hardware import Hardware, cpu_times
from headrace.collect.os import OperatingSystem, protocols, softnet
from headrace.collect.perf import CPU_CLOCK, SOFTWARE, PerfCounter, PerfRefused
from headrace.collect.samples import Samples
from headrace.collect.virtual_switch import pmd_stats
from headrace.collect.virtualization import Virtualization
from headrace.collect.watch import trial_times
from headrace.errors import BadInput
from headrace.host.cgroups import mounts
from headrace.record.own import BundleError
from headrace.record.sampled import Sampled, SamplingEpoch

BUSY = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.5: pass\ninput()"


def test_each_layer_runs_or_says_why() -> None:
    samplers = collectors(Targets())
    assert [c.layer for c in samplers] == [
        "application",
        "virtualization",
        "virtual-switch",
        "os",
        "hardware",
    ]
    for c in samplers:
        assert c.refusal() or list(c.read())
        c.close()


def test_cpu_time_agrees_with_the_process_itself(tmp_path: Path) -> None:
    p = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE)
    targets = Targets(processes=(WatchedProcess(name="busy", pid=p.pid),))
    with Sampler([OperatingSystem(targets)], tmp_path, 0.05):
        wait_until(lambda: _state(p.pid) == "S" and _cpu_s(p.pid) >= 0.45)
    assert p.stdin is not None
    p.stdin.close()  # input() ends, and the process with it
    _, _, usage = os.wait4(p.pid, 0)
    window = Samples(tmp_path).window("os")
    used = window.last["process_user_s{busy}"] + window.last["process_system_s{busy}"]
    # Ticks of the clock, and what it takes to end.
    assert used == pytest.approx(usage.ru_utime + usage.ru_stime, abs=0.05)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)


def test_samples_are_aligned_and_their_cost_is_stated(tmp_path: Path) -> None:
    with Sampler(collectors(Targets()), tmp_path, 0.05):
        begin = time.monotonic_ns()
        time.sleep(0.5)
        end = time.monotonic_ns()
    about = json.loads((tmp_path / "collectors.json").read_text())
    assert about["refused"].keys() >= {"virtualization", "application"}
    assert 0 < about["layers"]["os"]["cost"]["share_of_one_cpu"] < 1
    whole = Samples(tmp_path).window("os")
    part = Samples(tmp_path).window("os", begin, end)
    assert 0 < part.seconds <= 0.5 < whole.seconds + 0.1
    assert whole.total("context_switches") >= part.total("context_switches") > 0


def test_a_period_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"period: got 0.0"):
        Sampler([], tmp_path, 0.0)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    row = json.dumps({"t_ns": 1, "values": {"context_switches": 5}})
    (tmp_path / "os.jsonl").write_text(f"{row}\n{row[:9]}")
    assert Samples(tmp_path).window("os").last == {"context_switches": 5}


def test_a_gone_process_is_left_out() -> None:
    p = subprocess.Popen(["true"])
    p.wait()
    gone = Targets(processes=(WatchedProcess(name="gone", pid=p.pid),))
    assert not any(r.place == "gone" for r in OperatingSystem(gone).read())


def test_an_unknown_cgroup_is_absent() -> None:
    assert "no such cgroup" in str(Virtualization(Targets(cgroups=("no/such",))).absent())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a cgroup")
def test_throttling_of_a_cgroup_with_a_quota(tmp_path: Path) -> None:
    at = mounts()
    name = f"headrace-test-{os.getpid()}"
    v1 = at.get("cpu")
    folder = (v1 or at[""]) / name
    try:
        folder.mkdir()
        if v1:
            (folder / "cpu.cfs_quota_us").write_text("20000")
        else:
            (folder / "cpu.max").write_text("20000 100000")
    except OSError as why:
        pytest.skip(f"a cgroup with a quota cannot be made here: {why}")
    p = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE)
    try:
        (folder / "cgroup.procs").write_text(str(p.pid))
        targets = Targets(cgroups=(name,))
        with Sampler([Virtualization(targets)], tmp_path, 0.1):
            wait_until(lambda: pairs(folder / "cpu.stat").get("nr_throttled", 0) > 5)
        window = Samples(tmp_path).window("virtualization")
        assert window.now("cgroup_cpu_quota_cpus") == {name: 0.2}
        assert window.change("cgroup_throttled_periods")[name] > 3
        assert window.change("cgroup_throttled_ns")[name] > 1e7
    finally:
        p.kill()
        p.communicate()
        folder.rmdir()


def test_a_counter_without_a_pmu_works() -> None:
    """A software event takes the same way as cycles, where those do not open."""
    try:
        counter = PerfCounter(SOFTWARE, CPU_CLOCK, min(os.sched_getaffinity(0)))
    except PerfRefused as why:
        pytest.skip(str(why))
    before = counter.read()
    time.sleep(0.05)
    assert counter.read() > before
    counter.close()


def test_no_pmu_is_said() -> None:
    hardware = Hardware(Targets())
    metrics = {r.metric for r in hardware.read()}
    assert ("cycles" in metrics) != ("ipc" in hardware.absent())
    hardware.close()


def test_softnet_columns() -> None:
    line = "0000000a 00000002 00000003 " + "00000000 " * 9 + "00000005 00000000 00000000"
    assert [(r.metric, r.place, r.value) for r in softnet(line)] == [
        ("softnet_packets", "cpu5", 10),
        ("softnet_dropped_packets", "cpu5", 2),
        ("softnet_squeezed", "cpu5", 3),
    ]


def test_protocol_tables() -> None:
    assert protocols("Udp: NoPorts RcvbufErrors\nUdp: 3 4\n") == {
        "Udp.NoPorts": 3,
        "Udp.RcvbufErrors": 4,
    }


def test_cpu_times_by_state() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    values = {(r.metric, r.place): r.value for r in cpu_times(f"cpu 1 1 1\ncpu3 {ticks} 0 0 0")}
    assert values["cpu_user_s", "cpu3"] == 1.0
    assert all(place == "cpu3" for _, place in values)


def test_ovs_pmd_statistics() -> None:
    shown = """pmd thread numa_id 0 core_id 1:
  packets received: 1000
  emc hits: 900
  idle cycles: 500 (50.00%)
"""
    values = {(r.metric, r.place): r.value for r in pmd_stats(shown)}
    assert values == {
        ("ovs_pmd_packets", "cpu1"): 1000,
        ("ovs_pmd_emc_hits", "cpu1"): 900,
        ("ovs_pmd_idle_cycles", "cpu1"): 500,
    }


def test_telemetry_leaves() -> None:
    values = {
        (r.metric, r.place): r.value for r in leaves("e", [{"in": 3, "nfs": {"acl": {"in": 2}}}])
    }
    assert values == {("in", "e.0"): 3, ("in", "e.0/nfs/acl"): 2}


@pytest.mark.parametrize("below", ["samples", "samples/001", "alone"])
@pytest.mark.parametrize("name", ["collectors.json", "os.jsonl", "trials.json"])
def test_a_folder_of_samples_leads_nowhere(tmp_path: Path, below: str, name: str) -> None:
    """Neither its files nor, in a bundle, the folders above them."""
    files = {
        "collectors.json": Sampled(
            version=1,
            period_s=1,
            epoch=SamplingEpoch(time_ns=0, monotonic_ns=0),
            refused={"os": "secret"},
            layers={},
        ).model_dump_json(),
        "os.jsonl": '{"t_ns": 1, "values": {"secret": 1}}\n',
        "trials.json": '[{"trial": 7, "begin_ns": 1, "end_ns": 2}]',
    }
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for one, told in files.items():
        (elsewhere / one).write_text(told)

    def read(folder: Path) -> object:
        if name == "trials.json":
            return trial_times(folder)
        samples = Samples(folder)
        return samples.about if name == "collectors.json" else samples.window("os").last

    assert read(elsewhere)
    linked = tmp_path / "linked" / below
    linked.mkdir(parents=True)
    (linked / name).symlink_to(elsewhere / name)
    with pytest.raises(BundleError, match="is no regular file"):
        read(linked)
    if below != "alone":  # whoever names a folder may name a link
        (tmp_path / "whole" / below).parent.mkdir(parents=True)
        (tmp_path / "whole" / below).symlink_to(elsewhere)
        with pytest.raises(BundleError, match="is no regular file"):
            read(tmp_path / "whole" / below)


def test_a_layers_lines_without_an_end_are_not_read(tmp_path: Path) -> None:
    """A hole of a terabyte takes a stranger one system call, or a line in an archive."""
    with (tmp_path / "os.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match=r"os\.jsonl:1: is too long; allowed: lines of at most"):
        Samples(tmp_path).window("os")
