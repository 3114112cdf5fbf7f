# SPDX-License-Identifier: Apache-2.0
"""What threads of a pod ran, by a shell in it that starts no program, and what a pod may answer."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.ground.kubernetes import threads
from headrace.ground.kubernetes.engine_pods import snapshot_in
from headrace.ground.kubernetes.threads import PodThreads, script
from headrace.host.scheduling import Thread

Answering = Callable[..., PodThreads]
STAT = "cpu 9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 9 0 0\nintr 5 5\n"


def thread(proc: Path, tid: int, cpus: str, counts: str) -> Path:
    folder = proc / "5" / "task" / str(tid)
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t{cpus}\n")
    (folder / "schedstat").write_text(f"{counts}\n")
    return folder


def test_threads_are_told_each_time_and_no_program_is_started(tmp_path: Path) -> None:
    """There is none to be found: what is not the shell's own fails. A thread that has ended since
    is left out."""
    (tmp_path / "stat").write_text(STAT)
    poller = thread(tmp_path, 8, "1", "100 20 3")
    over = thread(tmp_path, 9, "0-1", "7 7 7")
    with subprocess.Popen(
        ["/bin/sh", "-c", script(str(tmp_path))], env={"PATH": "/nowhere"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as shell:  # fmt: skip
        assert shell.stdin is not None and shell.stdout is not None and shell.stderr is not None

        def look() -> list[str]:
            assert shell.stdin is not None and shell.stdout is not None
            shell.stdin.write("\n")
            shell.stdin.flush()
            return list(iter(shell.stdout.readline, ".\n"))

        first = look()
        (poller / "schedstat").write_text("150 25 4\n")
        (over / "schedstat").unlink()
        second = look()
        shell.stdin.close()
        assert shell.stderr.read() == ""
    node = STAT.splitlines(keepends=True)[:3]
    assert sorted(first) == ["8 1 100 20 3\n", "9 0-1 7 7 7\n", *node]
    read = snapshot_in("".join(second), 0, first=1000)
    assert read.threads == {8: Thread(1001, 150, 25)}
    assert read.stolen_ns == {1000: 80_000_000, 1001: 90_000_000}


class PodsEnd:
    """The pod's end of a stream: it answers with this, and then nothing more."""

    def __init__(self, answer: bytes, *, ends: bool) -> None:
        self.socket, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._say, args=(answer, ends))
        self._thread.start()

    def _say(self, answer: bytes, ends: bool) -> None:
        assert self._theirs.recv(1) == b"\n"
        try:
            self._theirs.sendall(answer)
        except OSError:
            return
        if ends:
            self._theirs.close()

    def close(self) -> None:
        self.socket.close()
        self._thread.join()
        self._theirs.close()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    opened = []

    def answering(answer: bytes, *, ends: bool = False) -> PodThreads:
        end = PodsEnd(answer, ends=ends)
        opened.append(end)
        monkeypatch.setattr(threads, "Tunnel", lambda *way: end)
        return PodThreads(None, "n", "vnf1", "engine")  # type: ignore[arg-type]

    yield answering
    for one in opened:
        one.close()


def test_an_answer_ends_with_a_dot(answering: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering(b"8 1 1 1 1\n.\n").read() == "8 1 1 1 1\n"
    assert answering(b".\n").read() == ""
    monkeypatch.setattr(threads, "_ANSWER_S", 0.3)
    monkeypatch.setattr(threads, "_ANSWER_MOST", 1000)
    for answer, ends, words in (
        (b"8 1.\n", False, r"was not told in 0.3 s"),
        (b"8 1 1", True, r"is not told any more: its stream has ended"),
        (b"8" * 100_000, False, r"has more than 1000 bytes"),
    ):
        with pytest.raises(HeadraceError, match=f"^pod vnf1: what its threads ran {words}$"):
            answering(answer, ends=ends).read()
