# SPDX-License-Identifier: Apache-2.0
"""Routing daemons of a VNF: started in its namespace, watched, started again."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import BadInput, HeadraceError
from headrace.host.bounded import Unbounded, run_bounded
from headrace.host.ledger import Ledger
from headrace.host.processes import Process
from headrace.host.tail import tail
from headrace.host.tool import last_words, printable
from headrace.spec.offload import RouterVnf

_FRR = Path("/usr/lib/frr")
_FPM = "fpm address 127.0.0.1 port 2620"
_READY_S = 15.0
_VTYSH_S = 120.0
_BACKOFF_S = 1.0


@dataclass
class RunningDaemon:
    """One process, and when it may be started again."""

    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0


@dataclass
class Daemons:
    """The daemons of one VNF. `folder` has their sockets, logs and process numbers."""

    name: str
    vnf: RouterVnf
    namespace: str
    config: Path | None
    folder: Path
    ledger: Ledger
    running: dict[str, RunningDaemon] = field(default_factory=dict)

    def start(self) -> None:
        routing = self.vnf.routing
        if routing.daemon == "none":
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if routing.daemon == "frr":
            self._start_frr()
        else:
            self._start_bird()

    def _start_frr(self) -> None:
        check_frr(self.vnf)
        # The daemons drop to a user of their own, who must reach the folder.
        shutil.chown(self.folder, "frr", "frr")
        common = ["-z", str(self.folder / "zserv.api"), "--vty_socket", str(self.folder)]
        # Nothing that a path of ours in their folder would have to be made for: they could have put
        # a link there.
        common += ["-f", os.devnull]
        for daemon in ("zebra", *self.vnf.routing.daemons):
            module = ["-M", "dplane_fpm_nl", "-s", "90000000"] if daemon == "zebra" else []
            pid = ["-i", str(self.folder / f"{daemon}.pid")]
            self._add(daemon, [str(_FRR / daemon), *module, *common, *pid])
            self._wait_for(daemon)
        self._configure_frr(tuple(self.running))

    def _configure_frr(self, daemons: tuple[str, ...]) -> None:
        """`daemons` are new, and have forgotten everything: the others keep what they have."""
        if "zebra" in daemons:
            self._vtysh("-d", "zebra", "-c", "configure terminal", "-c", _FPM)
        assert self.config is not None
        for daemon in daemons:
            self._vtysh("-d", daemon, "-f", str(self.config), check=False)

    def _vtysh(self, *arguments: str, check: bool = True) -> None:
        try:  # what it says, and for how long, is up to the daemons
            command = ["vtysh", "--vty_socket", str(self.folder), *arguments]
            done = run_bounded(command, _VTYSH_S)
        except Unbounded as why:
            raise HeadraceError(f"vnfs.{self.name}: vtysh {why}") from None
        if check and done.returncode:
            words = last_words(done.stderr or done.stdout)
            raise HeadraceError(f"vnfs.{self.name}: vtysh: {words}")

    def _wait_for(self, daemon: str) -> None:
        deadline = time.monotonic() + _READY_S
        socket = self.folder / f"{daemon}.vty"
        while not socket.exists():
            one = self.running[daemon]
            if one.process is None or one.process.poll() is not None:
                raise HeadraceError(f"vnfs.{self.name}: {daemon} ended: {last_words_in(one.log)}")
            if time.monotonic() > deadline:
                raise HeadraceError(f"vnfs.{self.name}: {daemon}: not ready after {_READY_S:g} s")
            time.sleep(0.05)

    def _start_bird(self) -> None:
        bird = find_bird(self.name)
        assert self.config is not None
        self._add(
            "bird",
            [bird, "-f", "-c", str(self.config), "-s", str(self.folder / "bird.ctl"),
             "-P", str(self.folder / "bird.pid")],
        )  # fmt: skip

    def _add(self, daemon: str, command: list[str]) -> None:
        enter = ["ip", "netns", "exec", self.namespace]
        # Beside the folder: the daemon's user could put a link into that.
        log = self.folder.with_name(f"{self.folder.name}-{daemon}.log")
        one = RunningDaemon([*enter, *command], log)
        self.running[daemon] = one
        self._run(one)

    def _run(self, one: RunningDaemon) -> None:
        with one.log.open("ab") as log:
            one.process = subprocess.Popen(
                one.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        one.started = time.monotonic()
        process = Process.of(one.process.pid)
        if process is not None:
            self.ledger.note("process", f"{process.pid}:{process.started}")

    def watch(self) -> tuple[list[str], list[str]]:
        """Daemons that have died since, and those that were started again."""
        died, back = [], []
        for daemon, one in self.running.items():
            if one.process is not None and one.process.poll() is not None:
                one.process = None
                one.deaths += 1
                died.append(daemon)
                if daemon == "zebra":
                    self._end_clients()
            elif (
                one.process is None
                and self.vnf.routing.restart
                and time.monotonic() >= one.started + _BACKOFF_S * min(one.deaths, 30)
            ):
                (self.folder / f"{daemon}.vty").unlink(missing_ok=True)
                self._run(one)
                back.append(daemon)
        if back and self.vnf.routing.daemon == "frr":
            for daemon in back:
                self._wait_for(daemon)
            self._configure_frr(tuple(back))
        return died, back

    def last_words(self, daemon: str) -> str:
        return last_words_in(self.running[daemon].log)

    def _end_clients(self) -> None:
        """A new zebra knows nothing of them: all start anew, as watchfrr(8) has it."""
        for daemon, one in self.running.items():
            if daemon != "zebra" and one.process is not None:
                one.process.kill()
                one.process.wait()

    def kill(self) -> None:
        """All at once, as a VNF's crash would; `start` starts it anew."""
        for one in self.running.values():
            if one.process is not None:
                one.process.kill()
        for one in self.running.values():
            if one.process is not None:
                one.process.wait()
        self.running.clear()
        for socket in (*self.folder.glob("*.vty"), *self.folder.glob("*.api")):
            socket.unlink(missing_ok=True)

    def stop(self) -> None:
        for one in self.running.values():
            if one.process is not None and one.process.poll() is None:
                one.process.terminate()
        for one in self.running.values():
            if one.process is None:
                continue
            try:
                one.process.wait(5)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        self.running.clear()


def programs(daemon: str) -> list[str]:
    """That a VNF with this routing daemon runs."""
    if daemon == "bird":
        return [_bird() or "bird"]
    return [str(_FRR)] if daemon == "frr" else []


def _bird() -> str | None:
    return shutil.which("bird", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def find_bird(vnf: str) -> str:
    bird = _bird()
    if bird is None:
        raise HeadraceError(f"vnfs.{vnf}: bird is not installed (Debian: bird2)")
    return bird


def check_frr(vnf: RouterVnf) -> None:
    for daemon in ("zebra", *vnf.routing.daemons):
        if not (_FRR / daemon).exists():
            there = sorted(p.name for p in _FRR.glob("*d") if p.name != "frr-reload")
            raise BadInput(
                f"{daemon!r} is not in {_FRR}; "
                + (f"allowed: {', '.join(there)}" if there else "install FRR (Debian: frr)")
            )


def last_words_in(log: Path) -> str:
    """What a peer sends may be told there."""
    lines = tail(log).strip().splitlines()
    return printable(lines[-1]) if lines else f"nothing in {log}"
