# SPDX-License-Identifier: Apache-2.0
"""What an engine may do once it runs, as the kernel has it: user, capabilities, no_new_privs and
seccomp of each of its threads; and that it leaves nothing behind all the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.host.state import dpdk_folder, dpdk_in
from support.engine import Engine, memory_engine
from support.lab import COMMAND, environment, runtime_dir, wait_for

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
FIRST_USER = 0x78000000  # engine/core/rights/rights.h
CAP_DAC_OVERRIDE, CAP_NET_ADMIN = 1 << 1, 1 << 12
NOBODY = 65534


def plan(cpu: int, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A source and a sink; `more` links are written to by nobody but a second segment."""
    links = {"gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}}}
    segments = [{"name": "a", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:meas"}]}]
    for name, link in (more or {}).items():
        links[name] = link
        segments.append(
            {"name": name, "cpus": [cpu], "inputs": [{"link": name, "to": f"link:{name}"}]}
        )
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {**links, "meas": {"type": "sink", "params": {}}},
        "segments": segments,
    }


def statuses(pid: int) -> Iterator[dict[str, str]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        yield dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def filtered(binary: Path) -> str:
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return "2" if "libseccomp" in version.stdout else "0"


def has_no_rights(pid: int, user: int, seccomp: str, keeps: int = 0) -> None:
    """`keeps`: capabilities of the first thread, whose number is the process'."""
    threads = list(statuses(pid))
    assert len(threads) > 3
    for one in threads:
        assert one["Uid"].split() == one["Gid"].split() == [str(user)] * 4, one["Name"]
        assert one["Groups"].strip() == ""
        first = one["Pid"].strip() == str(pid)
        for kind in ("CapEff", "CapPrm"):
            assert int(one[kind], 16) == (keeps if first else 0), (one["Name"], kind)
        assert int(one["CapInh"], 16) == int(one["CapAmb"], 16) == 0
        assert one["NoNewPrivs"].strip() == "1"
        assert one["Seccomp"].strip() == seccomp, one["Name"]


def alive(pid: int) -> bool:
    """A process that ended and that nobody has asked after is none."""
    with contextlib.suppress(OSError):
        return next(statuses(pid))["State"][0] != "Z"
    return False


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.needs_root
def test_engine_has_no_rights(
    start_engine: Start, engine_binary: Path, cpus: list[int], tmp_path: Path
) -> None:
    """In a folder that only root may enter, with a link that listens there."""
    tmp_path.chmod(0o700)
    asked = plan(cpus[0], {"vf": {"type": "shm", "params": {"socket": str(tmp_path / "vf")}}})
    seccomp = filtered(engine_binary)
    with start_engine(asked) as engine:
        pid = engine.process.pid
        dpdk = Path("/run/dpdk") / asked["engine"]["file_prefix"]
        has_no_rights(pid, FIRST_USER + pid, seccomp)
        [helper] = children(pid)
        [only] = statuses(helper)
        assert only["Name"] == "headrace-helper"
        assert int(only["CapEff"], 16) == int(only["CapPrm"], 16) == CAP_DAC_OVERRIDE
        assert (only["NoNewPrivs"].strip(), only["Seccomp"].strip()) == ("1", seccomp)
        engine.call("start", sources={"gen": {"rate_pps": 10000, "packets": 1000}})
        engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "packets")
        links = engine.settle(1)["links"]  # a machine that is busy sends fewer
        assert links["meas"]["received"] == links["gen"]["sent"] > 0
        assert dpdk.is_dir() and (tmp_path / "vf").is_socket()
        engine.call("quit")
        assert engine.process.wait(timeout=10) == 0
    # Made by root, and removed by an engine that may not write there.
    assert not dpdk.exists()
    assert not (tmp_path / "vf").exists() and not engine.socket_path.exists()
    assert wait_for(lambda: not alive(helper), 5)


@pytest.mark.needs_root
def test_devices_that_are_the_kernels(
    start_engine: Start, engine_binary: Path, cpus: list[int]
) -> None:
    """A TAP is set down at the end, for which one capability stays, in one thread."""
    name = f"hrt{os.getpid() % 100000}"
    asked = plan(
        cpus[0], {"tap": {"type": "port", "params": {"devargs": f"net_tap0,iface={name}"}}}
    )
    with start_engine(asked) as engine:
        pid = engine.process.pid
        has_no_rights(pid, FIRST_USER + pid, filtered(engine_binary), CAP_NET_ADMIN)
        assert Path(f"/sys/class/net/{name}").exists()
    assert not Path(f"/sys/class/net/{name}").exists()
    assert "denied" not in engine.log_file.read_text()


@pytest.mark.needs_root
def test_ends_with_its_parent(start_engine: Start, cpus: list[int]) -> None:
    """The kernel forgets --with-parent when a process becomes another user."""
    engine = start_engine(plan(cpus[0]))
    starter = "import os, subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(60)"  # noqa: E501
    with subprocess.Popen(
        ["python3", "-c", starter, *engine.command], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert wait_for(lambda: next(statuses(pid))["Uid"].split()[0] != "0", 30)
        parent.kill()
    assert wait_for(lambda: not alive(pid), 10)


@pytest.mark.needs_root
def test_ordinary_user(engine_binary: Path, cpus: list[int]) -> None:
    """It has no rights to give up; the filter and no_new_privs it has, and no helper."""
    with tempfile.TemporaryDirectory() as own_folder:
        folder = Path(own_folder)
        shutil.chown(folder, NOBODY, NOBODY)
        binary = Path(shutil.copy(engine_binary, folder))
        engine = Engine(binary, plan(cpus[0]), folder)
        enter = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        engine.command = [*enter, "env", f"XDG_RUNTIME_DIR={own_folder}", *engine.command]
        with engine:
            pid = engine.process.pid
            has_no_rights(pid, NOBODY, filtered(engine_binary))
            assert children(pid) == []
        assert not engine.socket_path.exists()


@contextlib.contextmanager
def _taken_by_another() -> Iterator[None]:
    """DPDK's folder of ordinary users, as the first of them leaves it: nobody else's."""
    shared = Path("/tmp/dpdk")
    if shared.exists():
        pytest.skip(f"{shared} is there, and somebody's")
    shared.mkdir(0o700)
    shutil.chown(shared, NOBODY - 1, NOBODY - 1)
    try:
        yield
    finally:
        shutil.rmtree(shared)


@pytest.mark.needs_root
def test_a_second_ordinary_user(engine_binary: Path, cpus: list[int]) -> None:
    """What an engine of the lab's keeps for DPDK is in its run's own folder, whoever was first."""
    with tempfile.TemporaryDirectory() as own_folder, _taken_by_another():
        folder = Path(own_folder)
        shutil.chown(folder, NOBODY, NOBODY)
        binary = Path(shutil.copy(engine_binary, folder))
        document = plan(cpus[0])
        engine = Engine(binary, document, folder)
        ours = f"RUNTIME_DIRECTORY={dpdk_in(folder)['RUNTIME_DIRECTORY']}"
        enter = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        engine.command = [*enter, "env", "-u", "XDG_RUNTIME_DIR", ours, *engine.command]
        with engine:
            own = dpdk_folder(folder, document["engine"]["file_prefix"])
            assert (own / "dpdk_telemetry.v2").is_socket()


HOSTED = """
name: rights
chain: [l2fwd]
deployment: {hosting: {kind: process, slots: 64}, hugepages: false}
workload: {frame: [128], flows: 60}
warmup: 0
measure: {loads: [2000], trial: 3}
"""


@pytest.mark.needs_root
def test_vnf_has_no_rights(engine_binary: Path, tmp_path: Path) -> None:
    """The host's engine and a VNF's are two users, neither of which is root."""
    (tmp_path / "spec.yaml").write_text(HOSTED)
    with subprocess.Popen(
        [COMMAND, "run", "spec.yaml", "--out", "b"], cwd=tmp_path,
        env=environment(tmp_path, engine_binary),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as run:  # fmt: skip
        assert wait_for(lambda: len(engines_of(tmp_path)) == 2, 120)
        pids = engines_of(tmp_path)
        assert wait_for(lambda: all(next(statuses(p))["Uid"].split()[0] != "0" for p in pids), 60)
        for pid in pids:
            has_no_rights(pid, FIRST_USER + pid, filtered(engine_binary))
        # Where memory runs out the VNF's is ended first.
        adjusted = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids]
        assert sorted(adjusted) == [int(Path("/proc/self/oom_score_adj").read_text()), 1000]
        run.send_signal(signal.SIGINT)
        run.wait(60)
    assert engines_of(tmp_path) == []


def engines_of(folder: Path) -> list[int]:
    """Engines of a run that this folder began, the host's and VNFs'."""
    engines = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = cmdline.read_bytes().decode(errors="replace").split("\0")
            if "--plan" in words and any(w.startswith(str(runtime_dir(folder))) for w in words):
                engines.append(int(cmdline.parent.name))
    return engines
