# SPDX-License-Identifier: Apache-2.0
"""Chains whose VNFs are virtual machines, emulated: what passes, what is lost, who dies, what is
left. A guest boots in seconds, but each test has some: `make test-vm`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.cli._testdata import valid
from headrace.errors import HeadraceError
from headrace.ground.hosted.vm_accel import find_qemu
from headrace.ground.hosted.vm_cpio import Archive
from headrace.ground.hosted.vm_kernel import find_kernel
from headrace.host.openvswitch import dpdk_lacking
from headrace.record.bundle import Bundle
from headrace.record.figures import L1_OVERHEAD_BYTES
from support.lab import COMMAND, environment, headrace, killed_vnfs, state_left, wait_for

ATTEMPTS = 3
NO_OVS = dpdk_lacking()
RULES = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n"  # ClassBench's form
ACL = "{acl: {rules: [{action: permit}], default: deny}}"


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    try:
        find_qemu()
        find_kernel()
    except HeadraceError as why:
        pytest.skip(str(why))


def spec(chain: str, hosting: str = "", more: str = "", measure: str = "") -> str:
    return f"""
name: vms
chain: {chain}
deployment:
  hosting: {{kind: vm, vm: {{accel: tcg}}{hosting}}}
  hugepages: false
  {more}
workload: {{frame: [128], flows: 8}}
warmup: 0
measure: {measure or "{loads: [500], trial: 1.0, drain: 2.0}"}
"""


def run(folder: Path, engine: Path, text: str) -> list[dict[str, Any]]:
    """Once more where the machine paused for so long that a queue was full."""
    (folder / "spec.yaml").write_text(text)
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder / "b", ignore_errors=True)
        done = headrace(
            "run", "spec.yaml", "--out", "b", "--json", folder=folder, engine=engine, timeout=900
        )
        assert state_left(folder) == []
        all_results = json.loads(done.stdout)["results"] if done.returncode == 0 else []
        if all_results and not any(result["loss_ratio"] for result in all_results):
            break
    assert done.returncode == 0, done.stderr
    assert all_results and not any(result["loss_ratio"] for result in all_results)
    return list(all_results)


def passed(folder: Path) -> dict[str, int]:
    """What each VNF's own counters say of the last trial, and how many came back."""
    [(counters, received, labels, segments, audit, anatomy, mean)] = duckdb.sql(
        "select counters, received, labels, segments, audit, anatomy, latency_ns.mean "
        f"from '{folder}/b/trials.parquet' order by trial desc limit 1"
    ).fetchall()
    parts = sum(anatomy[f"{k}_ns"] for k in ("generator", "switch", "queue", "scheduler", "vnf"))
    assert parts == pytest.approx(mean, rel=0.01)
    assert anatomy["vnf_ns"] > 0 and anatomy["queue_ns"] + anatomy["scheduler_ns"] > 0
    counters = json.loads(counters) if isinstance(counters, str) else counters
    assert {"hosting-vm", "accel-tcg"} <= set(labels)
    assert "emulated" in {finding["check"] for finding in audit["findings"]}
    assert audit["verdict"] != "ok"
    packets = {
        r["segment"]: int(r["packets_in"])
        for r in counters["replicas"]
        if r["segment"].startswith("vnf")
    }
    assert {s["name"] for s in segments if s["hosting"] == "vm"} == set(packets)
    return packets | {"sink": int(received)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "hosting", "more", "vnfs"),
    [
        ("[l2fwd]", "", "", 1),
        ("[l2fwd]", ", vm: {accel: tcg, driver: af_packet, vcpus: 2}", "", 1),
        (
            f"[l2fwd, {ACL}, monitor]",
            "",
            "execution: {segments: [[l2fwd], [acl, monitor]]}",
            2,
        ),
        ("[l2fwd]", ", chains: 2, active: 1, oversubscription: '2:1'", "", 2),
        pytest.param(
            "[l2fwd, monitor]",
            "",
            "execution: pipeline\n  network: ovs-dpdk",
            2,
            marks=[
                pytest.mark.needs_root,
                pytest.mark.skipif(NO_OVS is not None, reason=str(NO_OVS)),
            ],
        ),
        pytest.param(
            "[l2fwd, monitor]",
            "",
            "execution: pipeline\n  network: bridge",
            2,
            marks=pytest.mark.needs_root,
        ),
    ],
    ids=["pvp", "kernel-driver", "pvvp-multi-feature", "one-stands-by", "open-vswitch", "bridge"],
)
def test_every_packet_passes(
    engine_binary: Path, tmp_path: Path, chain: str, hosting: str, more: str, vnfs: int
) -> None:
    text = spec(chain, hosting, more)
    if ", vm:" in hosting:
        text = text.replace("vm: {accel: tcg}, vm:", "vm:")
    run(tmp_path, engine_binary, text)
    counts = passed(tmp_path)
    back = counts.pop("sink")
    assert back > 0 and len(counts) == vnfs
    idle = {name: n for name, n in counts.items() if "active: 1" in hosting and "vnf2" in name}
    assert set(idle.values()) <= {0}
    assert all(n == back for name, n in counts.items() if name not in idle)


LICENSED_MBPS, LONG, BURST = 10, 1518, 32
LICENSED_PPS = LICENSED_MBPS * 1e6 / 8 / (LONG + L1_OVERHEAD_BYTES)


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("network", ["bridge", "ovs-dpdk"])
def test_a_machine_sends_what_its_licence_allows(
    engine_binary: Path, tmp_path: Path, network: str
) -> None:
    """The known answer is what came in two seconds, in layer 1's bits, and the bucket with which it
    began, of a burst; what did not come is what the switch's own statistics have dropped."""
    if network == "ovs-dpdk" and NO_OVS is not None:
        pytest.skip(NO_OVS)
    loads = [round(LICENSED_PPS / 2), round(LICENSED_PPS * 2)]
    text = spec(
        "[l2fwd]",
        f", rate_cap_gbps: {LICENSED_MBPS / 1000}",
        f"network: {network}",
        f"{{loads: {loads}, trial: 2.0, drain: 2.0}}",
    )
    (tmp_path / "spec.yaml").write_text(text.replace("frame: [128]", f"frame: [{LONG}]"))
    for _ in range(ATTEMPTS):  # the machine may pause for longer than queues hold
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        done = headrace(
            "run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary, timeout=300
        )
        assert done.returncode == 0, done.stderr
        low, high = Bundle(tmp_path / "b").results()
        # A guest hands on after the sources' end what waits for it then: what it sent last, the
        # switch passed so long after it had been sent as it took at most.
        late_s = high.latency_ns.max / 1e9 if high.latency_ns else 0.0
        allowed = LICENSED_PPS * (high.duration_s or 0)
        if not low.lost and high.received > 0.95 * allowed:
            break
    assert state_left(tmp_path) == [] and low.lost == 0
    assert 0.95 * allowed < high.received < 1.02 * (allowed + LICENSED_PPS * late_s + BURST)
    assert high.drops == {"vnf1.1:vf/tx-capped": high.lost}
    assert [account.unknown for account in high.accounts] == [0]
    [limit] = high.limits
    assert (limit.kind, limit.place, limit.dropped) == ("rate-cap", "vnf1.1", high.lost)


@pytest.mark.slow
def test_it_has_the_files_of_its_functions(engine_binary: Path, tmp_path: Path) -> None:
    """Below /tmp, as a user's may be."""
    (tmp_path / "permit.rules").write_text(RULES)
    run(tmp_path, engine_binary, spec("[{acl: {rules_file: permit.rules, default: deny}}]"))
    assert passed(tmp_path)["sink"] > 0


@pytest.mark.slow
def test_an_image_that_never_drives_its_interface(engine_binary: Path, tmp_path: Path) -> None:
    a_router(
        tmp_path, "#!/bin/busybox sh\n/bin/busybox echo nothing to do\n/bin/busybox sleep 600\n"
    )
    appliance = (
        "{appliance: {kernel: vmlinuz, initrd: initrd, append: 'console=ttyS0 quiet', "
        "memory_mb: 128, boot: 40}}"
    )
    (tmp_path / "spec.yaml").write_text(spec(f"[{appliance}]", "", "execution: pipeline"))
    done = headrace(
        "run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary, timeout=120
    )
    assert done.returncode == 1
    assert "vnf1.1: its link is not up after 40 s (`boot`); its console: " in done.stderr
    assert "nothing to do" in done.stderr and state_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "more"),
    [("[l2fwd]", ""), (f"[l2fwd, {ACL}]", "execution: pipeline")],
    ids=["pvp", "pvvp"],
)
def test_a_search_finds_what_passes_without_loss(
    engine_binary: Path, tmp_path: Path, chain: str, more: str
) -> None:
    measure = (
        "{search: [zero], min_load: 100, max_load: 4000, drain: 2.0, search_timeout: 120, "
        "goals: {width: 0.3, initial_trial: 0.5, final_trial: 1.0, duration_sum: 2.0}}"
    )
    [result] = run(tmp_path, engine_binary, spec(chain, "", more, measure))
    assert result["goal"] == "zero" and result["throughput_pps"] > 0


def machines() -> set[int]:
    """QEMUs with VNFs of headrace's on this machine."""
    pids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu-system" in words[0] and any(w.startswith(b"headrace-vnf") for w in words):
            pids.add(int(folder.name))
    return pids


@pytest.mark.slow
def test_its_threads_and_memory_are_where_it_was_placed(
    engine_binary: Path, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(spec("[l2fwd]"))
    done = headrace(
        "hosting", "where", "spec.yaml", "--json",
        folder=tmp_path, engine=engine_binary, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    engines = {one["name"]: one for one in valid("hosting where", done.stdout)["engines"]}
    machine = engines["vnf1.1"]
    [vcpu] = [thread for thread in machine["threads"] if thread["works"]]
    assert vcpu["name"].startswith("CPU 0/") and vcpu["allowed"] == machine["lcores"]
    assert sum(machine["kb"].values()) > 64 << 10  # of the guest's memory, what it has touched
    assert sum(engines["host"]["kb"].values()) > 0
    assert state_left(tmp_path) == []


def status_of(pid: int) -> dict[str, set[str]]:
    """What proc(5) says of all of its threads: field -> the values that there are."""
    told: dict[str, set[str]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            key, _, value = line.partition(":")
            told.setdefault(key, set()).add(value.strip())
    return told


@pytest.mark.slow
def test_nothing_is_left_of_a_lab_that_was_killed(engine_binary: Path, tmp_path: Path) -> None:
    before = machines()
    text = spec("[l2fwd]", "", "", "{loads: [200], trial: 60}")
    (tmp_path / "spec.yaml").write_text(text)
    lab = subprocess.Popen(
        [str(COMMAND), "run", "spec.yaml", "--out", "b"],
        cwd=tmp_path, env=environment(tmp_path, engine_binary),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert wait_for(lambda: machines() - before or lab.poll() is not None, 120)
        assert lab.poll() is None
        [qemu] = machines() - before
        # Its threads of vCPUs are the last to come.
        wait_for(lambda: any("CPU 0/" in one for one in status_of(qemu)["Name"]), 30)
        told = status_of(qemu)
        assert told["NoNewPrivs"] == {"1"} and told["Seccomp"] == {"2"}
        if os.geteuid() == 0:
            assert told["Uid"] == {"\t".join([str(0x78000000 + qemu)] * 4)}
            assert told["CapPrm"] == told["CapEff"] == told["CapBnd"] == {"0" * 16}
            assert told["Groups"] == {""}
        time.sleep(2)
    finally:
        os.kill(lab.pid, signal.SIGKILL)
        lab.wait()
    assert wait_for(lambda: not machines() - before, 10)
    done = headrace("clean", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert state_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("network", ["veb", pytest.param("bridge", marks=pytest.mark.needs_root)])
def test_the_host_outlives_its_machines(engine_binary: Path, tmp_path: Path, network: str) -> None:
    """Killed in full flow and started again: the host goes on, and loses no packet buffer."""
    text = spec("[l2fwd]", ", chains: 2", f"network: {network}")
    (tmp_path / "spec.yaml").write_text(text)
    killed_vnfs(tmp_path, engine_binary, 30, 500, 2, timeout=300)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("hosting", "variables", "message"),
    [
        ("", {"PATH": "/nowhere"}, "qemu-system-x86_64: not found; run `scripts/setup.sh vm`"),
        ("", {"HEADRACE_VM_KERNEL": "/nowhere"}, "HEADRACE_VM_KERNEL: got '/nowhere'; allowed:"),
        (", wait: interrupt", {}, "allowed with `kind: vm`: poll, adaptive"),
        (", chains: 40", {}, "40 chains of 1 VNFs are 40; allowed: 31"),
    ],
)
def test_refused_before_anything_starts(
    engine_binary: Path, tmp_path: Path, hosting: str, variables: dict[str, str], message: str
) -> None:
    (tmp_path / "spec.yaml").write_text(spec("[l2fwd]", hosting))
    done = subprocess.run(
        [str(COMMAND), "run", "--check", "spec.yaml"],
        cwd=tmp_path, env=environment(tmp_path, engine_binary) | variables,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert state_left(tmp_path) == []


@pytest.mark.slow
def test_too_little_memory(engine_binary: Path, tmp_path: Path) -> None:
    text = spec("[l2fwd]").replace("accel: tcg", "accel: tcg, memory_mb: 160")
    (tmp_path / "spec.yaml").write_text(text)
    done = headrace("run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "deployment.hosting.vm.memory_mb: got 160; vnf1.1 needs" in done.stderr
    assert state_left(tmp_path) == []


ROUTER = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
while read -r module; do insmod /modules/$module.ko; done </modules/order
told=/sys/firmware/qemu_fw_cfg/by_name/opt/headrace
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
for which in all default eth0; do echo 0 >/proc/sys/net/ipv4/conf/$which/rp_filter; done
for which in all eth0; do echo 0 >/proc/sys/net/ipv4/conf/$which/send_redirects; done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip addr add 198.18.255.254/32 dev eth0
ip link set eth0 up
ip route add 198.18.255.1/32 dev eth0
arp -i eth0 -s 198.18.255.1 $(cat $told/next_mac/raw)
ip route add default via 198.18.255.1
echo "router of $(cat $told/mac/raw) login:"
exec sleep 100000
"""


# By the first interface in and by the second out, and the other way round.
BETWEEN = ROUTER.replace(
    ROUTER[ROUTER.index("ip addr add") : ROUTER.index('echo "router')],
    """ip addr add 198.18.255.253/32 dev eth0
ip addr add 198.18.255.254/32 dev eth1
for n in 0 1; do ip link set eth$n up; echo 0 >/proc/sys/net/ipv4/conf/eth$n/send_redirects; done
arp -i eth1 -s 198.18.255.1 $(cat $told/next_mac/raw)
arp -i eth0 -s 198.18.255.2 $(cat $told/reverse_next_mac/raw)
ip route add 198.18.255.1/32 dev eth1
ip route add 198.18.255.2/32 dev eth0
ip route add default via 198.18.255.1 table 1
ip route add default via 198.18.255.2 table 2
ip rule add dev eth0 table 1
ip rule add dev eth1 table 2
""",
).replace("$told/mac/raw", "$told/left_mac/raw")


def a_router(folder: Path, init: str = ROUTER) -> None:
    """As a user's image might be: Linux that routes, started without a disk."""
    kernel = find_kernel()
    try:
        order = kernel.load_order(["virtio_pci", "virtio_net", "qemu_fw_cfg"])
    except HeadraceError as why:
        pytest.skip(str(why))
    busybox = shutil.which("busybox")
    assert busybox
    with (folder / "initrd").open("wb") as out:
        archive = Archive(out)
        for name in ("/proc", "/sys", "/dev"):
            archive.directory(name)
        archive.file("/bin/busybox", Path(busybox).read_bytes(), 0o755)
        archive.file("/init", init.encode(), 0o755)
        archive.file("/modules/order", "".join(f"{name}\n" for name in order).encode())
        for name, content in order.items():
            archive.file(f"/modules/{name}.ko", content)
        archive.end()
    shutil.copy(kernel.image, folder / "vmlinuz")


@pytest.mark.slow
def test_an_image_of_the_users(engine_binary: Path, tmp_path: Path) -> None:
    a_router(tmp_path)
    appliance = (
        "{appliance: {kernel: vmlinuz, initrd: initrd, append: 'console=ttyS0 quiet', "
        "memory_mb: 128, health: {console: 'login:'}, rate_cap_gbps: 0.01}}"
    )
    text = spec(f"[l2fwd, {appliance}]", "", "execution: pipeline")
    [result] = run(tmp_path, engine_binary, text.replace("[500]", "[300]"))
    assert result["received"] == result["sent"] > 0


@pytest.mark.slow
def test_an_image_of_the_users_with_traffic_both_ways(engine_binary: Path, tmp_path: Path) -> None:
    a_router(tmp_path, BETWEEN)
    appliance = (
        "{appliance: {kernel: vmlinuz, initrd: initrd, append: 'console=ttyS0 quiet', "
        "memory_mb: 128, health: {console: 'login:'}}}"
    )
    text = spec(f"[l2fwd, {appliance}]", "", "execution: pipeline")
    text = text.replace("flows: 8}", "flows: 8, direction: both}").replace("[500]", "[200]")
    results = run(tmp_path, engine_binary, text)
    assert {result["direction"] for result in results} == {"forward", "reverse", "both"}
    assert all(result["received"] == result["sent"] > 0 for result in results)


@pytest.mark.parallel
def test_an_image_shares_no_machine(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").touch()
    (tmp_path / "spec.yaml").write_text(spec("[l2fwd, {appliance: {image: disk}}]"))
    done = headrace("run", "--check", "spec.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "chain[1]: 'appliance' is a machine of its own" in done.stderr
    assert "allowed: `execution: pipeline`" in done.stderr
