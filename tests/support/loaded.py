# SPDX-License-Identifier: Apache-2.0
"""`headrace` commands as forks of one process that has loaded what they load: loading them
takes a command a second of CPU, and tests start hundreds of commands. Each is a process of its own
all the same, with its folder, environment, output and end.

The one process is this file as a script: it has nothing of the tests, and no threads when it forks.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

_REQUEST_MOST = 1 << 20  # bytes: arguments and environment
_PR_SET_NAME = 15  # prctl(2)
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000  # unshare(2), setns(2)
_MS_REC, _MS_SLAVE, _MNT_DETACH = 1 << 14, 1 << 19, 2  # mount(2), umount(2)
_LOADED = (
    "headrace.__main__", "headrace.cli._study_run", "headrace.cli.explain", "headrace.cli.report",
    "headrace.cli.run", "headrace.ground.choose", "headrace.ground.hosted.ground",
    "headrace.ground.offload.ground", "headrace.ground.own_chains", "headrace.ground.wired.ground",
    "headrace.measure.search", "headrace.measure.session", "headrace.report.html",
    "headrace.ground.simulated.ground", "headrace.analyse.diff", "hdrh.histogram", "pyroute2",
    "duckdb", "numpy",
)  # fmt: skip


class Loaded:
    """The process that the others are forked of; one for each that runs tests."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_MOST)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # no threads when it forks
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait()

    def run(
        self,
        command: list[str],
        folder: Path,
        env: dict[str, str],
        timeout: float,
        netns: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run`, which captures the output, or as with `ip netns exec` before it."""
        ends = time.monotonic() + timeout
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, err = _Output(), _Output()
        with ours:
            request = {"argv": command, "cwd": str(folder), "env": env, "netns": netns}
            with theirs:
                fds = [theirs.fileno(), out.written, err.written]
                socket.send_fds(self._ours, [json.dumps(request).encode()], fds)
            out.begin()
            err.begin()
            pid = int(ours.recv(64))
            try:
                ours.settimeout(max(0.01, ends - time.monotonic()))
                status = int(ours.recv(64))
                texts = [one.text(max(0.01, ends - time.monotonic())) for one in (out, err)]
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout) from None
        return subprocess.CompletedProcess(command, status, *texts)


class _Output:
    """What is written to a pipe, until nobody has it open any more."""

    def __init__(self) -> None:
        self._read, self.written = os.pipe()
        self._said = b""
        self._reader = threading.Thread(target=self._take, daemon=True)

    def begin(self) -> None:
        os.close(self.written)
        self._reader.start()

    def _take(self) -> None:
        with os.fdopen(self._read, "rb") as file:
            self._said = file.read()

    def text(self, within_s: float) -> str:
        self._reader.join(within_s)
        if self._reader.is_alive():
            raise TimeoutError
        return self._said.decode().replace("\r\n", "\n")


@cache
def loaded() -> Loaded:
    return Loaded()


def _load() -> None:
    import importlib

    for name in _LOADED:
        importlib.import_module(name)
    from headrace.engine.counts import EngineCounts
    from headrace.record.rows import Result, Trial
    from headrace.spec.study import Study

    for model in (Study, Trial, Result, EngineCounts):
        model.model_rebuild()
    gc.freeze()  # or each fork's first collection would copy all of it


def _serve(requests: socket.socket) -> None:
    """One request after the other, however many of their processes run; until nobody asks."""
    running: dict[int, tuple[int, socket.socket]] = {}  # pidfd: process, and who waits for it
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    _tell(*running.pop(key.fd))
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    continue
                request, fds, _, _ = socket.recv_fds(requests, _REQUEST_MOST, 3)
                if not request:
                    return
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    requests.close()
                    _become(json.loads(request), fds)
                asker = socket.socket(fileno=fds[0])
                for fd in fds[1:]:
                    os.close(fd)
                asker.send(str(pid).encode())
                watched = os.pidfd_open(pid)
                running[watched] = pid, asker
                selector.register(watched, selectors.EVENT_READ)


def _tell(pid: int, asker: socket.socket) -> None:
    _, status = os.waitpid(pid, 0)
    with asker, suppress(OSError):  # who asked has waited too long, and is gone
        asker.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """The command: what Python does before and after a script is done here."""
    status = 1
    try:
        for at, fd in enumerate(fds[1:], 1):
            os.dup2(fd, at)
        os.closerange(3, max(fds) + 64)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ctypes.CDLL(None).prctl(_PR_SET_NAME, b"headrace", 0, 0, 0)
        if request["netns"] is not None:
            _enter(request["netns"])
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        sys.argv = request["argv"]
        from headrace.__main__ import main

        main()
    except SystemExit as ended:
        status = _status(ended.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for file in (sys.stdout, sys.stderr):
            try:
                file.flush()
            except OSError:
                status = 120  # as Python's own
        os._exit(status)


def _enter(netns: str) -> None:
    """Does what `ip netns exec` does: /sys is that namespace's, too, and seen by this process and
    its own alone."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: Any, *arguments: Any) -> None:
        if function(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"{function.__name__} for {netns}")

    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    call(libc.setns, fd, _CLONE_NEWNET)
    os.close(fd)
    call(libc.unshare, _CLONE_NEWNS)
    call(libc.mount, b"", b"/", b"none", ctypes.c_ulong(_MS_SLAVE | _MS_REC), None)
    libc.umount2(b"/sys", _MNT_DETACH)  # where it may not be, the new one lies over it
    call(libc.mount, netns.encode(), b"/sys", b"sysfs", ctypes.c_ulong(0), None)


def _status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    del sys.path[0]  # the tests' modules
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: who asks ends it
    _load()
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _serve(_requests)
    os._exit(0)  # what it loaded has nothing to undo, and libraries would complain of what is left
