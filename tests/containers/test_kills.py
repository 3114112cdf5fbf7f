# SPDX-License-Identifier: Apache-2.0
"""Runs killed at random moments: `headrace clean` leaves nothing, and a second run works.

HEADRACE_KILLS: how many (2 unless given; `make test-containers` asks for ten); HEADRACE_SEED: of
the moments.
"""

from __future__ import annotations

import os
import random
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
_LONGEST_S = 15.0  # a chain of five is deployed, measured and removed in about that


@pytest.mark.skipif(_WHY is not None, reason=str(_WHY))
def test_killed_runs_leave_nothing_after_clean(tmp_path: Path) -> None:
    before = ours()
    seed = int(os.environ.get("HEADRACE_SEED", "1"))
    moments = random.Random(seed)
    networks = ["bridge", "ovs"] if shutil.which("ovs-vsctl") else ["bridge"]
    spec = (
        "name: test\ndeployment: {{hosting: container, network: [{network}]}}\n"
        "chain: [nat, ids, ip-firewall, l7-cache, l4-lb]\nworkload: {{kind: http, duration: 1 s}}\n"
    )
    file = tmp_path / "killed.yaml"
    for number in range(int(os.environ.get("HEADRACE_KILLS", "2"))):
        file.write_text(spec.format(network=networks[number % len(networks)]))
        moment = moments.uniform(0.5, _LONGEST_S)
        with subprocess.Popen(
            [*HEADRACE, "run", str(file), "--out", str(tmp_path / f"killed-{number}")],
            env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as victim:  # fmt: skip
            time.sleep(moment)
            victim.send_signal(signal.SIGKILL)
        made = tags(tmp_path)
        cleaned = headrace(tmp_path, "clean")
        where = f"kill {number} after {moment:.1f} s (seed {seed}): {cleaned.stdout}"
        assert cleaned.returncode == 0, where + cleaned.stderr
        assert not {name for name in ours() - before if name[:TAG] in made}, where
        assert not processes(tmp_path), where
    assert "nothing to clean" in headrace(tmp_path, "clean").stdout
    [result] = results(run(tmp_path, spec.format(network=networks[-1])))
    assert result["application"]["requests"] > 0
