# SPDX-License-Identifier: Apache-2.0
"""The worked example of a device that is none of headrace's, at a rate that any machine has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.record.bundle import Bundle
from headrace.record.rows import Trial
from support.lab import headrace, state_left
from support.netns import Lan

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

STUDIES = Path(__file__).resolve().parents[2] / "studies"
DAEMONS = "suricata", "suricatasc"


def trial_of(lan: Lan, folder: Path, engine: Path, text: str, traffic: int) -> Trial:
    """A study's one trial at 1,000 packets/s for a second, with the tester on this CPU."""
    data: dict[str, Any] = yaml.safe_load(text)
    data |= {"warmup": 0, "repetitions": 1, "measure": {"loads": [1000], "trial": 1}}
    data["deployment"]["lcores"] = {"traffic": [traffic]}
    data.pop("quick", None)
    (folder / "spec.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    namespace = lan.namespace("e")
    for one, other in (("hrleft", "hrin"), ("hrright", "hrout")):
        lan.veth((namespace, one), (namespace, other))
    done = headrace(
        "run", "spec.yaml", "--out", "b", folder=folder, engine=engine, netns=namespace, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert state_left(folder) == []
    [trial] = Bundle(folder / "b").trials()
    return trial


@pytest.mark.skipif(not all(map(shutil.which, DAEMONS)), reason="suricata is not installed")
def test_suricata_blocks_what_its_rule_says(
    lan: Lan, engine_binary: Path, tmp_path: Path, cpus: list[int]
) -> None:
    """One flow of two is for port 2001: what is missing is what Suricata says it blocked."""
    text = (STUDIES / "external-suricata.yaml").read_text()
    trial = trial_of(lan, tmp_path, engine_binary, text, cpus[0])
    assert trial.counters is not None
    dut = trial.counters.dut
    assert dut["blocked"] == trial.lost == trial.sent - trial.received
    assert dut["accepted"] == trial.received
    assert abs(trial.lost - trial.received) <= 1 + trial.audit.unsent
