# SPDX-License-Identifier: Apache-2.0
"""`headrace hosting selftest` as a user runs it: what this machine has passes, what it lacks is
skipped with its reason, and what is not where it was placed fails."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli._groups import this_machine
from headrace.cli._testdata import valid
from headrace.record.bundle import Bundle
from support.lab import headrace, runtime_dir, state_left
from support.netns import Lan

pytestmark = pytest.mark.beside

WORKER = ("lcore-worker", "rte-worker")


def parts(stdout: str) -> dict[str, Any]:
    output = valid("hosting selftest", stdout)
    every = {one["part"]: one for one in output["parts"]}
    outcomes = [one["outcome"] for one in every.values()]
    counts = [output[name] for name in ("passed", "failed", "skipped")]
    assert counts == [outcomes.count(name) for name in ("passed", "failed", "skipped")]
    return every


def test_what_this_machine_has(engine_binary: Path, tmp_path: Path) -> None:
    """Skipped is what others than the self-test say is not here."""
    done = headrace(
        "hosting", "selftest", "--out", "b", "--json",
        folder=tmp_path, engine=engine_binary, timeout=900,
    )  # fmt: skip
    assert done.stdout, done.stderr
    every = parts(done.stdout)
    machine, root = this_machine(), os.geteuid() == 0
    ran = (
        {f"processes-{n}" for n in range(1, 7)}
        | {"both-ways-1"}
        | ({"bridge-1"} if root else set())
    )
    for name in ran:
        assert every[name]["outcome"] == "passed", every[name]
        assert every[name]["received"] == every[name]["sent"] > 0
    if (why := machine.no_kvm()) is not None:
        for name in ("machines-1", "gigabyte-pages-1", "vhost-net-1", "functions-machines-1"):
            assert every[name]["outcome"] == "skipped"
            assert f"needs KVM: {why}" in every[name]["why"]
    if machine.nodes == 1:
        assert "needs 2 NUMA nodes" in every["other-node-1"]["why"]
    assert "--wire" in every["wire-1"]["why"]
    assert done.returncode == 0
    assert state_left(tmp_path) == []
    told_in_bundle(tmp_path / "b", ran, done.stdout)


def told_in_bundle(bundle: Path, ran: set[str], printed: str) -> None:
    """Evidence: each trial's audit, and every engine's threads and pages."""
    assert json.loads((bundle / "samples/selftest.json").read_text()) == json.loads(printed)
    for trial in Bundle(bundle).trials():
        assert [f.ok for f in trial.audit.findings if f.check == "placement"] == [True]
    kept = json.loads((bundle / "samples/where.json").read_text())
    assert {name.partition(",")[0] for name in kept} == ran
    for engines in kept.values():
        assert engines[0]["name"] == "host" and len(engines) > 1
        assert all(sum(one["page_kb"].values()) == sum(one["kb"].values()) > 0 for one in engines)


def own_engines(folder: Path) -> Iterator[int]:
    """The processes of this test's runs, by their run-time directory."""
    ours = f"XDG_RUNTIME_DIR={runtime_dir(folder)}".encode()
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            engine = (proc / "comm").read_text().startswith("headrace-engine")
            if engine and ours in (proc / "environ").read_bytes().split(b"\0"):
                yield int(proc.name)


def let_run_anywhere(folder: Path, over: threading.Event) -> None:
    """What some tool of the machine's does to threads that are pinned."""
    every = os.sched_getaffinity(0)
    while not over.wait(0.05):
        for pid in own_engines(folder):
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    if (task / "comm").read_text().startswith(WORKER):
                        os.sched_setaffinity(int(task.name), every)


def test_a_thread_that_may_run_elsewhere_fails_it(engine_binary: Path, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there is no elsewhere")
    over = threading.Event()
    mover = threading.Thread(target=let_run_anywhere, args=(tmp_path, over))
    mover.start()
    try:
        done = headrace(
            "hosting", "selftest", "--group", "both-ways", "--json",
            folder=tmp_path, engine=engine_binary, timeout=300,
        )  # fmt: skip
    finally:
        over.set()
        mover.join()
    [part] = parts(done.stdout).values()
    assert done.returncode == 1 and part["outcome"] == "failed"
    assert "Not where its placement says: " in part["why"] and "may run on" in part["why"]
    assert "1 part of the self-test failed: both-ways-1" in done.stderr


@pytest.mark.needs_root
def test_a_wire(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """Two interfaces that a veth joins; and two that nothing does."""
    there = lan.namespace("s")
    lan.veth((there, "hrsleft"), (there, "hrsright"))

    def tried(left: str, right: str) -> tuple[int, Any]:
        ends = (f"af_packet:{left}", f"af_packet:{right}")
        done = headrace(
            "hosting", "selftest", "--group", "wire", "--wire", *ends, "--json",
            folder=tmp_path, engine=engine_binary, timeout=240, netns=there,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, parts(done.stdout)["wire-1"]

    status, part = tried("hrsleft", "hrsright")
    assert (status, part["outcome"]) == (0, "passed"), part
    assert part["received"] == part["sent"] > 0
    lan.veth((there, "hrsa"), (there, "hrsb"))
    status, part = tried("hrsleft", "hrsa")
    assert (status, part["outcome"]) == (1, "failed"), part


def test_nothing_that_could_be_tried(engine_binary: Path, tmp_path: Path) -> None:
    if this_machine().no_kvm() is None:
        pytest.skip("KVM runs guests here")
    done = headrace(
        "hosting", "selftest", "--group", "machines", "--json",
        folder=tmp_path, engine=engine_binary,
    )  # fmt: skip
    assert done.returncode == 1 and "no part of the self-test can be tried" in done.stderr
    assert {one["outcome"] for one in parts(done.stdout).values()} == {"skipped"}
    assert json.loads(done.stdout)["bundle"] is None and list(tmp_path.iterdir()) == []


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--wire", "eth0:", "eth1"], "--wire: got 'eth0:'; allowed: a PCI address"),
        (
            ["--wire", "af_packet:nope0", "af_packet:nope1"],
            "--wire: got 'af_packet:nope0'; there is no interface nope0; allowed: ",
        ),
        (["--wire", "tap:a", "tap:a"], "--wire: got 'tap:a tap:a'; allowed: two ports"),
        (["--pf", "nope"], "--pf: got 'nope'; allowed: a NIC with SR-IOV functions ("),
        (
            ["--group", "bridge", "--wire", "a", "b"],
            "--wire: got 'a b'; --group bridge has no use for it; allowed: with --group wire",
        ),
        (
            ["--group", "wire", "--pf", "a"],
            "--pf: got 'a'; --group wire has no use for it; allowed: with --group functions or ",
        ),
    ],
)
def test_ports_that_are_not_here_are_bad_input(
    options: list[str], words: str, engine_binary: Path, tmp_path: Path
) -> None:
    done = headrace(
        "hosting", "selftest", *options, "--list", folder=tmp_path, engine=engine_binary
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"headrace: {words}")


@pytest.mark.parallel
def test_a_wire_to_nowhere_is_bad_input(engine_binary: Path, tmp_path: Path) -> None:
    ends = ("af_packet:nope0", "af_packet:nope1")
    done = headrace("hosting", "selftest", "--wire", *ends, folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []
    told = done.stderr.splitlines()[-1]
    assert told.startswith("headrace: --wire: got 'af_packet:nope0'; there is no interface nope0")


@pytest.mark.parallel
def test_the_list_for_scripts(engine_binary: Path, tmp_path: Path) -> None:
    options = ("hosting", "selftest", "--group", "wire", "--list")
    told = headrace(*options, folder=tmp_path, engine=engine_binary)
    done = headrace(*options, "--json", folder=tmp_path, engine=engine_binary)
    [point] = valid("hosting selftest --list", done.stdout)["points"]
    assert (point["point"], point["group"]) == ("wire-1", "wire")
    assert told.stdout == f"wire-1  [{point['lacking']}]\n"
