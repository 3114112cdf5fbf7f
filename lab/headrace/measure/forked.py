# SPDX-License-Identifier: Apache-2.0
"""Pieces of work in processes of their own, which end with whoever started them."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from headrace.errors import EXIT_FAILURE, EXIT_INTERRUPTED, HeadraceError

_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True)
class ForkedJob:
    name: str
    work: Callable[[], None]
    log: Path  # all that it prints


@dataclass(frozen=True)
class RunningJob:
    job: ForkedJob
    pid: int
    watched: int  # a file descriptor, readable when it has ended (pidfd_open(2))


def forked(jobs: Sequence[ForkedJob], most: int) -> Generator[tuple[str, str | None], None, None]:
    """Runs `most` of them at a time. Gives the name of each that ended, with what it said last if
    it failed. Those that run are told to end, and waited for, when the caller goes no further."""
    waiting, running = list(reversed(jobs)), dict[int, RunningJob]()
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    one = _start(waiting.pop())
                    running[one.watched] = one
                    selector.register(one.watched, selectors.EVENT_READ)
                for key, _ in selector.select():
                    selector.unregister(key.fd)
                    ended = running.pop(key.fd)
                    yield ended.job.name, _outcome(ended)
        finally:
            for one in running.values():
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGTERM)
            for one in running.values():
                _outcome(one)


def _outcome(one: RunningJob) -> str | None:
    _, status = os.waitpid(one.pid, 0)
    os.close(one.watched)
    if status == 0:
        return None
    lines = one.job.log.read_text(encoding="utf-8", errors="replace").split("\n")
    code = os.waitstatus_to_exitcode(status)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "said nothing")
    return f"killed by signal {-code}" if code < 0 else last.removeprefix("headrace: ")


def _start(job: ForkedJob) -> RunningJob:
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _child(job, parent)
    return RunningJob(job, pid, os.pidfd_open(pid))


def _child(job: ForkedJob, parent: int) -> NoReturn:
    status = EXIT_FAILURE
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:  # else it was killed before this could be asked for
            with job.log.open("w", encoding="utf-8") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            job.work()
            status = 0
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        status = error.exit_status
    except KeyboardInterrupt:
        print("headrace: interrupted", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
