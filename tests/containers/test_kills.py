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
from pathlib import Path

import pytest

from support.containers import (
    HEADRACE,
    TAG,
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
_WHY = lacking("nat", "ip-firewall", "l7-cache", "l4-lb", "ids", "traffic")
_SPEC = (
    "name: test\ndeployment: {{hosting: container, network: [{network}]}}\n"
    "chain: [nat, ids, ip-firewall, l7-cache, l4-lb]\nworkload: {{kind: http, duration: 1 s}}\n"
)
_FIRST = re.compile(r"\[1/")  # what a run says when its first deployment begins


def _start(folder: Path, file: Path, bundle: str) -> subprocess.Popen[str]:
    """A run whose first deployment has begun: what came before made nothing to be removed."""
    started = subprocess.Popen(
        [*HEADRACE, "run", str(file), "--out", str(folder / bundle)],
        env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stderr is not None
    said = ""
    while not _FIRST.search(line := started.stderr.readline()):
        said += line
        if not line:
            started.wait()
            raise AssertionError(f"the run ended before its first deployment: {said}")
    return started


def _lasts(folder: Path, file: Path) -> float:
    """Seconds of a run that nobody kills, from its first deployment on: on this machine, now."""
    with _start(folder, file, "whole") as whole:
        began = time.monotonic()
        assert whole.stderr is not None
        said = whole.stderr.read()
    assert whole.returncode == 0, said
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
        made = tags(tmp_path)
        cleaned = headrace(tmp_path, "clean")
        where = f"kill {number}, {moment:.1f} s of {lasts:.1f} (seed {seed}): {cleaned.stdout}"
        print(where)
        assert cleaned.returncode == 0, where + cleaned.stderr
        assert not {name for name in ours() - before if name[:TAG] in made}, where
        assert not processes(tmp_path), where
    assert alive >= kills / 2, f"only {alive} of {kills} runs had not ended when they were killed"
    assert "nothing to clean" in headrace(tmp_path, "clean").stdout
    [result] = results(run(tmp_path, _SPEC.format(network=networks[-1])))
    assert result["application"]["requests"] > 0
