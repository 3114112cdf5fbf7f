# SPDX-License-Identifier: Apache-2.0
"""What a kill leaves behind, and that `headrace clean` removes all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.lab import COMMAND, environment, headrace, runtime_dir, state_left

pytestmark = pytest.mark.beside

LONG = """\
name: long
chain:
  - null
deployment: {hugepages: auto, memory_mb: 256}
measure: {loads: [10000, 20000, 30000], trial: 1.5}
warmup: 0
"""


def hugepages_noted(folder: Path) -> int:
    """How many pages this folder's run has written down as added by it.

    The kernel's own count is everybody's, and other runs change it meanwhile.
    """
    for note in runtime_dir(folder).glob("headrace/run-*/hugepages.json"):
        with suppress(OSError, ValueError, KeyError):
            written = json.loads(note.read_text())
            return int(written["pages"]) if written["done"] else 0
    return 0


def hugepage_files() -> list[str]:
    folder = Path("/dev/hugepages")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def program_of(folder: Path) -> int | None:
    """What this folder's run has written down as its engine, if it lives."""
    for note in runtime_dir(folder).glob("headrace/run-*/engine.json"):
        with suppress(OSError, ValueError, KeyError):
            pid = int(json.loads(note.read_text())["pid"])
            os.kill(pid, 0)
            return pid
    return None


def engine_of(folder: Path) -> int | None:
    """The engine that is to send, and not one that is only asked something before (`--check`)."""
    pid = program_of(folder)
    if pid is None:
        return None
    with suppress(OSError):
        return pid if b"--plan" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") else None
    return None


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition: Any, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)
    return value


@contextmanager
def long_run(folder: Path, engine: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "long.yaml").write_text(LONG)
    with subprocess.Popen(
        [str(COMMAND), "run", "long.yaml"],
        cwd=folder,
        env=environment(folder, engine),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            if pid := engine_of(folder):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("after_s", [0.0, 0.3, 2.0])
def test_kill_9_of_the_lab(after_s: float, engine_binary: Path, tmp_path: Path) -> None:
    files = hugepage_files()
    with long_run(tmp_path, engine_binary) as run:
        pid = wait_until(lambda: engine_of(tmp_path))
        time.sleep(after_s)
        run.send_signal(signal.SIGKILL)
        run.wait()
        added = hugepages_noted(tmp_path)

        cleaned = headrace("clean", folder=tmp_path, engine=engine_binary)
        assert cleaned.returncode == 0, cleaned.stderr
        assert not alive(pid)
        assert state_left(tmp_path) == []
        assert hugepage_files() == files
        assert not added or f"gave back {added} hugepages" in cleaned.stdout
        again = headrace("clean", folder=tmp_path, engine=engine_binary)
        assert again.returncode == 0, "clean is idempotent"


def test_kill_9_of_the_engine(engine_binary: Path, tmp_path: Path) -> None:
    """The lab says so with status 1, keeps what it had, and leaves nothing else."""
    files = hugepage_files()
    with long_run(tmp_path, engine_binary) as run:
        # The first engine only calibrates the tester; the one that runs trials comes after it.
        wait_until(lambda: finished_trials(tmp_path) or run.poll() is not None)
        pid = wait_until(lambda: engine_of(tmp_path))
        os.kill(pid, signal.SIGKILL)
        output, _ = run.communicate(timeout=60)

    assert run.returncode == 1, output
    assert "engine" in output
    assert "Traceback" not in output
    assert headrace("clean", folder=tmp_path, engine=engine_binary).returncode == 0
    assert state_left(tmp_path) == []
    assert hugepage_files() == files


def finished_trials(folder: Path) -> list[Path]:
    """Trials are appended to the bundle as they end."""
    files = [path for path in folder.rglob("trials*") if path.is_file() and path.stat().st_size]
    time.sleep(0.1)
    return files


def test_interrupt_leaves_a_usable_bundle(engine_binary: Path, tmp_path: Path) -> None:
    with long_run(tmp_path, engine_binary) as run:
        pid = wait_until(lambda: engine_of(tmp_path))
        wait_until(lambda: finished_trials(tmp_path) or run.poll() is not None)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)

    assert "Traceback" not in output
    assert not alive(pid)
    assert state_left(tmp_path) == []
    bundles = sorted((tmp_path / "runs").iterdir())
    report = headrace("report", str(bundles[-1]), folder=tmp_path, engine=engine_binary)
    assert report.returncode == 0, report.stderr


@pytest.mark.parallel
@pytest.mark.parametrize("asked", ["--check", "--dry-run"])
def test_kill_9_of_a_question(asked: str, engine_binary: Path, tmp_path: Path) -> None:
    """An engine that answers nothing: it ends, and all that was written for it goes, in the folder
    for temporary files, too."""
    slow = tmp_path / "slow-engine"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *{asked}*) exec sleep 100;; esac\nexec {engine_binary} "$@"\n'
    )
    slow.chmod(0o755)
    (tmp_path / "long.yaml").write_text(LONG)
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        [str(COMMAND), "run", "--check", "long.yaml"], cwd=tmp_path,
        env=environment(tmp_path, slow) | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as check:  # fmt: skip
        pid = wait_until(lambda: program_of(tmp_path))
        check.send_signal(signal.SIGKILL)
    assert alive(pid) and any(one.endswith("plan.json") for one in state_left(tmp_path))
    assert list((tmp_path / "tmp").iterdir()) == []
    cleaned = headrace("clean", folder=tmp_path, engine=engine_binary)
    assert f"killed engine {pid}" in cleaned.stdout
    assert not alive(pid) and state_left(tmp_path) == []


@pytest.mark.parallel
def test_clean_with_nothing_to_do(engine_binary: Path, tmp_path: Path) -> None:
    done = headrace("clean", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0
    assert state_left(tmp_path) == []


@pytest.mark.parametrize("after_s", [0.0, 0.4, 1.5])
def test_an_impatient_interrupt(after_s: float, engine_binary: Path, tmp_path: Path) -> None:
    """Ctrl-C again and again, as of one who does not see why it takes so long: nothing is left, of
    what `clean` would not have to remove either, and one line says what became of the run."""
    files = hugepage_files()
    with long_run(tmp_path, engine_binary) as run:
        pid = wait_until(lambda: engine_of(tmp_path))
        time.sleep(after_s)
        for _ in range(40):
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
            time.sleep(0.02)
        output, _ = run.communicate(timeout=60)

    assert run.returncode == 130, output
    assert "Traceback" not in output and "RuntimeError" not in output
    assert [line for line in output.splitlines() if "interrupted" in line][1:] == []
    assert output.splitlines()[-1].startswith("interrupted")
    assert not alive(pid)
    assert state_left(tmp_path) == []
    assert hugepage_files() == files


@pytest.mark.needs_root
@pytest.mark.parametrize("room_kb", [4, 8, 16, 24])
def test_a_state_directory_that_is_full(room_kb: int, engine_binary: Path, tmp_path: Path) -> None:
    """It is a small file system in memory, seen by this run alone."""
    (tmp_path / "short.yaml").write_text(LONG.replace("trial: 1.5", "trial: 0.2"))
    state = runtime_dir(tmp_path)
    script = (
        f"mount -t tmpfs -o size={room_kb}k none {state} || exit 99; "
        f"{COMMAND} run short.yaml; echo status $?; find {state} -mindepth 1"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=tmp_path, text=True, timeout=120,
        env=environment(tmp_path, engine_binary), capture_output=True,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    if "status 0" not in done.stdout:
        assert "status 1" in done.stdout, done
        assert "no space left" in done.stderr.splitlines()[-1].lower(), done.stderr
    left = done.stdout.split("status ")[1].splitlines()[1:]
    assert left == [], done
