# SPDX-License-Identifier: Apache-2.0
"""What a killed run leaves is undone; what lives is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host.hugepages import give_back
from headrace.host.ledger import Ledger
from headrace.host.processes import Process
from headrace.host.state import RunState, clean, run_state, state_directories
from headrace.host.tree import remove_tree
from headrace.host.tree_test import deep

pytestmark = pytest.mark.usefixtures("own_state")

KILLED_OWNER = """
import os, signal, subprocess, sys
from headrace.host.state import RunState
from headrace.host.processes import Process
state = RunState()
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)
state.note("engine", Process.of(child.pid))
print(child.pid, state.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_orphan_of_a_killed_run_is_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_OWNER], capture_output=True, text=True, check=False
    )
    pid, path = done.stdout.split()
    orphan = Process.of(int(pid))
    assert orphan is not None and orphan.alive()
    told = clean()
    assert any(pid in line for line in told)
    deadline = time.monotonic() + 2
    while orphan.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not orphan.alive() and not Path(path).exists()
    assert clean() == []


def test_folders_of_a_killed_run_go_with_it() -> None:
    script = """
import os, signal
from headrace.host.state import RunState
with RunState().folder("part") as folder:
    (folder / "file").write_text("of it")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    folder = Path(done.stdout.strip())
    assert (folder / "file").exists()
    clean()
    assert not folder.exists() and not any(base.exists() for base in state_directories())


def test_a_folder_of_a_run_is_there_for_its_part() -> None:
    with run_state() as state:
        for _ in range(2):
            with state.folder("part") as folder:
                (folder / "file").write_text("of it")
            assert not folder.exists()


def test_a_run_that_lives_is_left_alone() -> None:
    state = RunState()
    assert clean() == []
    assert state.path.exists()
    state.remove()
    assert not any(base.exists() for base in state_directories())


def test_a_reused_process_number_is_not_ours() -> None:
    mine = Process.of(os.getpid())
    assert mine is not None
    assert not Process(mine.pid, mine.started - 1).alive()


@pytest.mark.parametrize(
    ("before", "pages", "done", "now", "left"),
    [
        (10, 5, True, 15, 10),
        (10, 5, True, 115, 110),  # another run added its own meanwhile
        (10, 5, False, 12, 10),  # killed while the kernel was looking for pages
        (10, 5, False, 10, 10),  # killed before it was asked
        (0, 5, True, 3, 0),
    ],
)
def test_only_what_was_added_is_given_back(
    tmp_path: Path, before: int, pages: int, done: bool, now: int, left: int
) -> None:
    control = tmp_path / "nr_hugepages"
    control.write_text(f"{now}\n")
    give_back(control, before, pages, done)
    assert int(control.read_text()) == left


def test_notes_survive_garbage() -> None:
    state = RunState()
    (state.path / "owner.json").write_text("{")
    (state.path / "engine.json").write_text(json.dumps({"pid": "x"}))
    assert clean() == [f"removed {state.path}"]


def test_a_start_undoes_what_a_killed_run_left(capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_OWNER], capture_output=True, text=True, check=False
    )
    pid, path = done.stdout.split()
    with run_state() as state:
        assert not Path(path).exists() and state.path.exists()
    orphan = Process.of(int(pid))
    assert orphan is None or not orphan.alive()
    printed = capfd.readouterr().err
    assert printed.startswith("headrace: a run that was killed had left something: killed engine ")
    assert f"removed {path}" in printed and printed.count("\n") == 1


def test_a_folder_as_deep_as_a_vnf_likes() -> None:
    state = RunState()
    deep(state.path / "vnf")
    state.remove()
    assert not any(base.exists() for base in state_directories())


def test_a_run_that_cannot_be_undone_stops_no_other(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = sorted((RunState() for _ in range(2)), key=lambda one: one.path)
    for state in (bad, good):
        state.forget("owner")

    def undo(run: Path) -> bool:
        if run == bad.path:
            raise RecursionError("too deep\nfor it")
        return remove_tree(run)

    monkeypatch.setattr("headrace.host.state.remove_tree", undo)
    with run_state():
        assert bad.path.exists() and not good.path.exists()
    printed = capfd.readouterr().err
    assert f"removed {good.path}; {bad.path}: too deep" in printed and printed.count("\n") == 1


def test_runs_that_begin_together_leave_each_other_alone() -> None:
    """Each undoes what it takes for a dead run's; that one is just beginning is no such sign."""
    script = (
        "from headrace.host.state import run_state\n"
        "for _ in range(40):\n"
        "    with run_state() as state:\n"
        "        assert (state.path / 'owner.json').exists()\n"
    )
    each = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [one.communicate()[1] for one in each] == [""] * 4
    assert [one.returncode for one in each] == [0] * 4


def test_a_state_directory_without_room(tmp_path: Path) -> None:
    """One line that names the file; nothing is left that could not be written."""
    state = RunState()
    (state.path / "claim.tmp").symlink_to("/dev/full")
    with pytest.raises(HeadraceError, match=r"claim\.tmp: cannot be written: no space left"):
        state.claim(1)
    (state.path / "resources.jsonl").symlink_to("/dev/full")
    with pytest.raises(HeadraceError, match=r"resources\.jsonl: cannot be written: no space"):
        Ledger(state.path).note("path", str(tmp_path / "none"))
    (state.path / "resources.jsonl").unlink()  # it would be read, and has no end
    state.remove()
    assert not state.path.exists()
