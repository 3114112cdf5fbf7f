# SPDX-License-Identifier: Apache-2.0
"""The engine's process: started, shielded, watched, ended; and its last words when it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.engine.control import Control, ControlLost
from headrace.engine.plan_document import Plan, PlanSegment
from headrace.engine.running import RunningEngine
from headrace.errors import EXIT_BAD_INPUT, BadInput, HeadraceError
from headrace.host import hugepages
from headrace.host.numa import started_near
from headrace.host.processes import Process
from headrace.host.scheduling import Snapshot, snapshot
from headrace.host.state import RunState, dpdk_in
from headrace.host.tail import tail
from headrace.host.tool import printable

_START_S = 1800.0  # a table of 10^9 entries takes ten minutes to load, more on a busy machine
_QUIT_S = 10.0
_LAST_LINES = 5
_LACKING = "are there enough free hugepages"  # its words where DPDK does not start
SHARE_MEASURING, SHARE_IDLE = -20, 0  # autogroup's nice values


class EngineDied(HeadraceError):
    """The engine ended when it should not have."""


class EngineRefused(BadInput):
    """The engine found the plan, or a file that it names, wrong."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place, self.problem = place, problem


class Engine(RunningEngine):
    """One whose process is ours."""

    def __init__(
        self,
        binary: Path,
        plan: Plan,
        state: RunState,
        enter: Sequence[str] = (),
        folder: str = "",
    ) -> None:
        """`enter`: a command that starts another in its place, such as `ip netns exec NAME`.
        `folder`: below the run's, of an engine that is not its only one."""
        super().__init__()
        self._state = state
        own = state.path / folder
        own.mkdir(exist_ok=True)
        self._note = folder or "engine"
        self._stderr = own / "engine.stderr"
        self._socket = own / "control.sock"
        self._socket.unlink(missing_ok=True)
        if plan.engine.hugepages and plan.engine.memory_mb:
            hugepages.wait_for(plan.engine.memory_mb)  # if they do not come, the engine says so
        plan_file = own / "plan.json"
        plan_file.write_text(plan.text)
        command = [*enter, str(binary), "--plan", str(plan_file), "--control", str(self._socket)]
        # Polling lcores must not outlive a lab that was killed.
        command.append("--with-parent")
        cpus = [cpu for segment in plan.segments for cpu in _cpus_of(segment)]
        with self._stderr.open("wb") as stderr, started_near(cpus):
            # A session of its own: Ctrl-C is for the lab, and autogroup works per session.
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    start_new_session=True,
                    env=dpdk_in(state.path),
                )
            except OSError as e:  # it is built anew meanwhile, say
                why = (e.strerror or "unknown error").lower()
                raise HeadraceError(f"{command[0]}: cannot be started: {why}") from None
        try:
            state.note(self._note, Process.of(self._process.pid))
            self.control = self._connect()
            self.shielded = set_share(self.pid, SHARE_IDLE)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Control:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self.last_words()
            try:
                return Control(self._socket)
            except OSError:
                time.sleep(0.02)
        raise EngineDied(f"engine: not ready after {_START_S:g} s")

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Shielded for a trial. Between trials its pollers have nothing to do but would take the
        CPU from the lab, which then computes a second for what takes it ten milliseconds."""
        self.shielded = set_share(self.pid, SHARE_MEASURING)
        try:
            yield
        finally:
            set_share(self.pid, SHARE_IDLE)

    def lost(self, why: ControlLost) -> HeadraceError:
        self._reap(1.0)
        return why if self._process.poll() is None else self.last_words()

    def scheduled(self) -> Snapshot:
        return snapshot(self.pid)

    def scheduled_beside(self) -> Snapshot | None:
        pids = self.pids.values()
        return snapshot(*pids) if pids else None

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self) -> HeadraceError:
        status = self._process.returncode
        try:
            text = tail(self._stderr).strip()
        except OSError:
            text = ""
        lines = text.splitlines()
        if status == EXIT_BAD_INPUT and lines:
            place, _, problem = lines[-1].removeprefix("headrace-engine: ").partition(": ")
            return EngineRefused(place, problem + _lacking(problem))
        how = f"exit status {status}"
        if status is not None and status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        words = printable(" | ".join(lines[-_LAST_LINES:])) or "nothing on stderr"
        return EngineDied(f"engine died ({how}); its last words: {words}{_lacking(words)}")

    def _reap(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def close(self) -> None:
        """Ask, then tell, then kill; nothing of the engine is left behind."""
        if self.control is not None:
            if self._process.poll() is None:
                with contextlib.suppress(HeadraceError):
                    self.control.request("quit")
            self.control.close()
            self.control = None
            self._reap(_QUIT_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                self._reap(_QUIT_S)
        self._state.forget(self._note)
        self._socket.unlink(missing_ok=True)


def _cpus_of(segment: PlanSegment) -> tuple[int, ...]:
    return (*segment.cpus, *(segment.parallel.cpus if segment.parallel else ()))


def _lacking(words: str) -> str:
    """Who has the hugepages, where the engine says that it lacks them: DPDK ends as one that was
    refused where there is not one page, and otherwise when it has asked for the memory."""
    return f" | hugepages: {hugepages.whose()}" if _LACKING in words else ""


def set_share(pid: int, nice: int) -> bool:
    """Set the CPU share of the engine's session: with autogroup (sched(7)), nice acts only inside
    a session, and a poller that is preempted loses packets. Needs CAP_SYS_NICE; without it a lower
    share could not be raised again, so nothing is done."""
    if os.geteuid() != 0:
        return False
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError:
        return False
    return True
