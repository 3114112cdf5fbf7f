# SPDX-License-Identifier: Apache-2.0
"""Runs killed at random moments: `headrace clean` leaves nothing, and a second run works.

HEADRACE_KILLS: how many (2 unless given; `make test-containers` asks for ten); HEADRACE_SEED: of
the moments.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.host.tool import tool
from support.containers import (
    HEADRACE,
    TAG,
    commands,
    environment,
    headrace,
    lacking,
    ours,
    processes,
    results,
    run,
    tags,
)

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
_NO_BASE = lacking("traffic", base=True)
_WHY = lacking("nat", "ip-firewall", "l7-cache", "l4-lb", "ids", "traffic")
REPO = Path(__file__).resolve().parents[2]
_SPEC = (
    "name: test\ndeployment: {{hosting: {{kind: appliances, network: [{network}]}}}}\n"
    "chain: [nat, ids, ip-firewall, l7-cache, l4-lb]\nmeasure: {{trial: 1 s}}\n"
)
_FIRST = re.compile(r"\(1/")  # what a run says when its first deployment begins


def _start(folder: Path, file: Path, bundle: str) -> subprocess.Popen[str]:
    """A run whose first deployment has begun: what came before made nothing to be removed."""
    started = subprocess.Popen(
        [*HEADRACE, "run", str(file), "--out", str(folder / bundle)],
        env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stderr is not None
    told = ""
    while not _FIRST.search(line := started.stderr.readline()):
        told += line
        if not line:
            started.wait()
            raise AssertionError(f"the run ended before its first deployment: {told}")
    return started


def _lasts(folder: Path, file: Path) -> float:
    """Seconds of a run that nobody kills, from its first deployment on: on this machine, now."""
    with _start(folder, file, "whole") as whole:
        began = time.monotonic()
        assert whole.stderr is not None
        errors = whole.stderr.read()
    assert whole.returncode == 0, errors
    return time.monotonic() - began


@pytest.mark.skipif(_WHY is not None, reason=str(_WHY))
def test_killed_runs_leave_nothing_after_clean(tmp_path: Path) -> None:
    before = ours()
    seed = int(os.environ.get("HEADRACE_SEED", "1"))
    moments = random.Random(seed)
    networks = ["bridge", "ovs"] if shutil.which("ovs-vsctl") else ["bridge"]
    file = tmp_path / "killed.yaml"
    file.write_text(_SPEC.format(network=networks[-1]))
    lasts = _lasts(tmp_path, file)
    alive = 0
    kills = int(os.environ.get("HEADRACE_KILLS", "2"))
    for number in range(kills):
        file.write_text(_SPEC.format(network=networks[number % len(networks)]))
        moment = moments.uniform(0, lasts)
        with _start(tmp_path, file, f"killed-{number}") as victim:
            time.sleep(moment)
            alive += victim.poll() is None
            victim.send_signal(signal.SIGKILL)
        own_tags = tags(tmp_path)
        cleaned = headrace(tmp_path, "clean")
        where = f"kill {number}, {moment:.1f} s of {lasts:.1f} (seed {seed}): {cleaned.stdout}"
        print(where)
        assert cleaned.returncode == 0, where + cleaned.stderr
        assert not {name for name in ours() - before if name[:TAG] in own_tags}, where
        assert not processes(tmp_path), where
    assert alive >= kills / 2, f"only {alive} of {kills} runs had not ended when they were killed"
    assert "nothing to clean" in headrace(tmp_path, "clean").stdout
    [result] = results(run(tmp_path, _SPEC.format(network=networks[-1])))
    assert result["application"]["requests"] > 0


@pytest.mark.skipif(_WHY is not None, reason=str(_WHY))
@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_an_impatient_interrupt_leaves_nothing(tmp_path: Path, share: float) -> None:
    """Ctrl-C, and again while containers are removed, which takes seconds: no `clean` is needed."""
    before = ours()
    file = tmp_path / "interrupted.yaml"
    file.write_text(_SPEC.format(network="bridge").replace("trial: 1 s", "trial: 10 s"))
    with _start(tmp_path, file, "interrupted") as victim:
        time.sleep(share * 20)
        assert victim.poll() is None
        for _ in range(20):
            if victim.poll() is None:
                victim.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert victim.stderr is not None
        errors = victim.stderr.read()
    assert victim.returncode == 130, errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("interrupted"), errors
    assert ours() <= before
    assert not processes(tmp_path)
    assert "nothing to clean" in headrace(tmp_path, "clean").stdout


@pytest.mark.skipif(_WHY is not None, reason=str(_WHY))
def test_the_next_start_removes_what_a_kill_left(tmp_path: Path) -> None:
    before = ours()
    file = tmp_path / "killed.yaml"
    file.write_text(_SPEC.format(network="bridge"))
    with _start(tmp_path, file, "killed") as victim:
        _until(lambda: len(ours() - before) > 5)
        victim.send_signal(signal.SIGKILL)
    own_tags = tags(tmp_path)
    done = run(tmp_path, "name: next\nchain: [nat]\ndeployment: {hosting: appliances}\n"
               "measure: {trial: 1 s}\n")  # fmt: skip
    [result] = results(done)
    assert result["application"]["requests"] > 0
    assert "a run that was killed had left something: " in done.stderr
    assert "removed container hr" in done.stderr
    assert not {name for name in ours() - before if name[:TAG] in own_tags}
    assert "nothing to clean" in headrace(tmp_path, "clean").stdout


@pytest.mark.skipif(_NO_BASE is not None, reason=str(_NO_BASE))
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM])
def test_killed_builds_leave_nothing_after_clean(tmp_path: Path, signal_: signal.Signals) -> None:
    vnfs = tmp_path / "vnfs"
    for name in ("traffic", "nat"):
        shutil.copytree(REPO / "vnfs" / name, vnfs / name)
    mark = f"sleep 60.{os.getpid()}"  # no other process has such arguments
    script = f"FROM debian:bookworm-slim\nRUN touch /x; {mark}\n"
    (vnfs / "nat" / "Containerfile").write_text(script)
    before = _working()
    with subprocess.Popen(
        [*HEADRACE, "vnf", "build", "nat"], env=environment(tmp_path, HEADRACE_VNFS=str(vnfs)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as victim:  # fmt: skip
        _until(lambda: _running(mark))
        victim.send_signal(signal_)
    assert victim.returncode != 0
    cleaned = headrace(tmp_path, "clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert not _running(mark), cleaned.stdout
    assert _working() <= before, cleaned.stdout
    left = [
        path for pattern in ("headrace-*", "buildah*") for path in (tmp_path / "t").glob(pattern)
    ]
    assert not left, cleaned.stdout


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _running(arguments: str) -> list[str]:
    return [pid for pid, text in commands().items() if text.strip() == arguments]


def _working() -> set[str]:
    """Containers that podman's builder works in; docker's are removed by its daemon."""
    if tool().name != "podman":
        return set()
    ordinary = tool().ask("ps", "--all", "--quiet").stdout.split()
    return set(tool().ask("ps", "--all", "--external", "--quiet").stdout.split()) - set(ordinary)
