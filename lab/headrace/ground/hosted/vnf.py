# SPDX-License-Identifier: Apache-2.0
"""A VNF as the lab sees it, whatever hosts it: started, connected, asked, killed, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from headrace.engine.control import Control
from headrace.engine.counts import EngineCounts
from headrace.errors import HeadraceError
from headrace.ground.hosted.parts import RUN, Vnf
from headrace.ground.hosted.run_queue import WORKER
from headrace.host.cgroups import EVEN, Cgroup, weigh
from headrace.host.sockets import connect_to
from headrace.host.tool import printable

_START_S = 300.0  # forty that start at once on emulated CPUs take minutes
_LOOK_S, _END_S = 0.05, 60.0
_LAST_LINES = 3
_LEAST = 1  # of weights


class HostedVnf(ABC):
    """Started and connected in two steps, so that several can start at once."""

    at_once = 64  # how many may be starting
    link_s = 60.0  # for its links to come up
    worker = WORKER  # what its threads that carry packets are called
    vhost = False  # the kernel moves its packets

    def __init__(self, vnf: Vnf, run: Path, prefix: str) -> None:
        self.vnf = vnf
        self.folder = run / vnf.folder
        self.folder.mkdir(exist_ok=True)
        self.control: Control | None = None
        self.weight: int | None = None  # of its control group; None: as it was made
        self._run = run
        self._prefix = f"{prefix}-{vnf.name}"
        self._socket = self.folder / "c.sock"  # a path of 107 characters at most (unix(7))
        self._group: Cgroup | None = None  # of its own, where the lab has made it
        self._back = False  # whether it has stepped back

    @abstractmethod
    def start(self) -> None: ...

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process of its engine, as this machine numbers it."""

    @property
    @abstractmethod
    def alive(self) -> bool: ...

    @abstractmethod
    def died(self) -> HeadraceError:
        """How, and its last words."""

    @abstractmethod
    def kill(self) -> None:
        """It ends as by a crash, if it has not: nothing is asked. It can be started again."""

    def await_end(self) -> None:
        """It has been told to leave, and can be started again."""
        deadline = time.monotonic() + _END_S
        while self.alive:
            if time.monotonic() > deadline:
                raise HeadraceError(f"{self.vnf.name}: still there {_END_S:g} s after it left")
            time.sleep(0.002)
        self.kill()

    @abstractmethod
    def close(self) -> None:
        """Is called after ask_to_quit, so that many end at once."""

    def answers(self) -> bool:
        """Tries once. Whether it has ended is for `connect` to say."""
        if self.control is None and self.alive:
            with contextlib.suppress(OSError):
                self.control = Control(connect_to(self._socket))
        return self.control is not None or not self.alive

    def connect(self) -> None:
        deadline = time.monotonic() + _START_S
        while not self.answers():
            if time.monotonic() > deadline:
                raise HeadraceError(f"{self.vnf.name}: not ready after {_START_S:g} s")
            time.sleep(0.02)
        if self.control is None:
            raise self.died()
        if len(self.vnf.lcores) > 1:
            self._float()

    def weigh(self, weight: int | None = None) -> None:
        """Gives its control group a weight; by default that which it had before it was started
        again, or stepped back."""
        self.weight = weight or self.weight
        if self.weight is not None or self._back:
            weigh(self.pid, self.weight or EVEN)
        self._back = False

    def step_back(self) -> None:
        """Leaves its lcore to others that start there, until it is weighed; where it is in a
        control group of its own."""
        if self._group is not None:
            weigh(self.pid, _LEAST)
            self._back = True

    def not_linked(self) -> HeadraceError:
        """What is said after `link_s`."""
        return HeadraceError(f"links of {self.vnf.name} not up after {self.link_s:g} s")

    @property
    def note(self) -> str | None:
        """What a user has to know of it, once it runs."""
        return None

    def gone(self) -> HeadraceError | None:
        """How it ended, where nothing is asked of it that would tell."""
        return None

    def ask_to_quit(self) -> None:
        if self.control is not None and self.alive:
            with contextlib.suppress(HeadraceError):
                self.control.send("quit")

    def read(self) -> EngineCounts:
        """The answer to a `read` that has been sent."""
        assert self.control is not None
        return self.control.receive_as("read", EngineCounts)

    def _clear_sockets(self) -> None:
        """An engine that was killed leaves them: who listens at a path wants it to be free."""
        for face in self.vnf.faces:
            if self.vnf.listens:
                Path(face.socket.replace(RUN, str(self._run))).unlink(missing_ok=True)
        self._socket.unlink(missing_ok=True)

    def _disconnect(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None
        self._socket.unlink(missing_ok=True)

    def _write_plan(self) -> Path:
        plan = self.vnf.plan
        assert plan is not None
        plan = plan.having(engine=plan.engine.having(file_prefix=self._prefix))
        file = self.folder / "plan.json"
        file.write_text(plan.placed(RUN, str(self._run)).text)
        return file

    def _float(self) -> None:
        """The scheduler decides: the engine pins each worker to one CPU, and this undoes it."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), self.vnf.lcores)


def as_they_answer(vnfs: Sequence[HostedVnf]) -> Iterator[HostedVnf]:
    """Each once, those first that are up first; after `_START_S` whichever are left. To look at all
    of them takes a tenth of a CPU at most, which they need."""
    left, deadline = list(vnfs), time.monotonic() + _START_S
    while left:
        began = time.monotonic()
        ready = [one for one in left if began > deadline or one.answers()]
        if not ready:
            time.sleep(max(_LOOK_S, 9 * (time.monotonic() - began)))
        yield from ready
        left = [one for one in left if one not in ready]


class ChildVnf(HostedVnf):
    """It is a process that the lab itself has started: its engine's, or QEMU's."""

    def __init__(self, vnf: Vnf, run: Path, prefix: str, group: Cgroup | None) -> None:
        super().__init__(vnf, run, prefix)
        self._group = group
        self._process: Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _wait(self, within_s: float) -> None:
        if self._process is not None:
            with contextlib.suppress(TimeoutExpired):
                self._process.wait(within_s)

    def _terminate(self, within_s: float) -> None:
        if self._process is not None and self.alive:
            self._process.terminate()
            self._wait(within_s)

    def _kill(self) -> None:
        if self._process is not None:
            if self.alive:
                self._process.kill()
            self._process.wait()

    def _how(self) -> str:
        """How it ended."""
        status = None if self._process is None else self._process.returncode
        how = f"exit status {status}"
        if status is not None and status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        full = self._group is not None and self._group.out_of_memory
        return how + (", out of its memory_limit_mb" if full else "")


def last_words(text: str) -> str:
    words = " | ".join(text.strip().splitlines()[-_LAST_LINES:])
    return printable(words) or "nothing on stderr"
