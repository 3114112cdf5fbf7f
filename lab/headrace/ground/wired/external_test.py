# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.ground.wired.external import Commands, ExternalDevice
from headrace.host.ledger import Ledger
from headrace.spec.testbed import ExternalDut

# It counts in a file of its folder, on and on.
COUNTS = 'cd "$HEADRACE_DUT"; while n=$((n+1)); do echo $n >new; mv new n; sleep 0.01; done'
SOON = 'until [ -e "$HEADRACE_DUT/n" ]; do sleep 0.01; done'
READ = 'printf \'{"n": %d}\' $(cat "$HEADRACE_DUT/n")'


@contextlib.contextmanager
def device(run: Path, start: str) -> Iterator[ExternalDevice]:
    commands = {"start": ["sh", "-c", start], "configure": [["sh", "-c", SOON]],
                "read": ["sh", "-c", READ]}  # fmt: skip
    dut = ExternalDevice(Commands(ExternalDut.model_validate(commands)), run, Ledger(run))
    try:
        yield dut
    finally:
        dut.close()


def test_its_commands_share_a_folder_of_its_own(tmp_path: Path) -> None:
    """What `start` writes there `configure` and `read` read; nobody else may, and with the point it
    is gone. A device that comes next finds nothing of it."""
    own = tmp_path / "dut"
    for _ in range(2):
        with device(tmp_path, COUNTS) as dut:
            dut.configure()
            assert own.stat().st_mode & 0o777 == 0o700
            first = dut.counters()["n"]
            assert 1 <= first <= dut.counters()["n"]
            (own / "left").mkdir()
        assert not own.exists()
    ledger = (tmp_path / "resources.jsonl").read_text().splitlines()
    assert {"kind": "path", "name": str(own)} in map(json.loads, ledger)
    assert "HEADRACE_DUT" not in os.environ


def test_what_a_kill_left_in_it_is_undone(tmp_path: Path) -> None:
    with device(tmp_path, COUNTS) as dut:
        dut.configure()
        assert f"removed path {tmp_path / 'dut'}" in Ledger(tmp_path).undo()
        assert not (tmp_path / "dut").exists()


def test_one_that_ended_says_its_last_words(tmp_path: Path) -> None:
    with (
        device(tmp_path, 'touch "$HEADRACE_DUT/n"; echo no rules >&2; exit 3') as dut,
        pytest.raises(HeadraceError, match=r"ended with status 3 before the trial did: no rules"),
    ):
        dut.configure()
        for _ in range(500):
            dut.check_alive()
            time.sleep(0.01)
