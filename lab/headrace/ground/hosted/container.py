# SPDX-License-Identifier: Apache-2.0
"""A VNF as a container: the catalogue's image of headrace's engine, without a network of its own.

Its folder of the run is all of the host that it sees, and can only be read: its plan, and the
socket of its link, over which the host hands it their memory. It can write one folder within, where
its control socket is, and those at which it awaits Open vSwitch; nothing else there is looked at.
Its CPUs, quota and memory are its control group's.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground import catalogue
from headrace.ground.appliances import images
from headrace.ground.hosted.parts import WRITABLE, Vnf
from headrace.ground.hosted.vnf import HostedVnf, last_words
from headrace.host import runtime
from headrace.host.cgroups import PERIOD_US, Cgroup
from headrace.host.ledger import Ledger
from headrace.host.processes import Process
from headrace.host.tool import tool
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting

_ENGINE = "/usr/bin/headrace-engine"
_START_S, _QUIT_S = 120.0, 10.0
_LAST_LINES = "5"
# What an engine writes: DPDK's run-time files. An image's other files are only read.
_WRITABLE = (
    "--read-only", "--shm-size", "16m",
    "--tmpfs", "/run:size=16m", "--tmpfs", "/tmp:size=16m", "--tmpfs", "/var/tmp:size=16m",
)  # fmt: skip
_PACKET_SOCKETS = ("--cap-add", "NET_RAW", "--cap-add", "NET_ADMIN")


def check(doc: Document) -> None:
    """Is asked before anybody waits for lcores."""
    if os.geteuid():
        raise HeadraceError(f"{doc.place}: hosting: container needs root; run it with sudo")
    tool().answers()


def no_containers() -> str | None:
    """Why no VNF can be in a container here."""
    if os.geteuid():
        return "they need root"
    try:
        tool().answers()
    except HeadraceError as why:
        return str(why)
    return None


def present(names: Sequence[str]) -> list[str]:
    """Those of the containers that are still there."""
    there = tool().ask("ps", "--all", "--format", "{{.Names}}").stdout.split() if names else []
    return [name for name in names if name in there]


class Containers:
    """What those of a run have in common."""

    def __init__(
        self, hosting: Hosting, ledger: Ledger, group: Cgroup | None, say: Callable[[str], None]
    ) -> None:
        self.hosting, self.ledger = hosting, ledger
        self.tag = f"hr{secrets.token_hex(2)}"
        entry = catalogue.find("headrace")
        images.build_all([entry], say, ledger)
        probe = f"{self.tag}-probe"
        ledger.note("container", probe)
        self.run = [tool().path, *runtime.way(probe).options, "--detach", *_confined(hosting)]
        if group is not None and _cgroupfs():
            self.run += ["--cgroup-parent", f"/{group.name}"]
        self.image = entry.image


def _confined(hosting: Hosting) -> list[str]:
    options = [*runtime.CONFINED, *_WRITABLE, *tool().logging]
    # A label would keep it from the sockets that are shared with it (SELinux).
    options += ["--security-opt", "label=disable", "--entrypoint", _ENGINE]
    if hosting.cpus is not None:
        quota = int(hosting.cpus * PERIOD_US)
        options += ["--cpu-period", str(PERIOD_US), "--cpu-quota", str(quota)]
    if hosting.hugepages:  # without it no DPDK may choose the node of its pages (mbind)
        options += ["--cap-add", "SYS_NICE"]
    if hosting.memory_limit_mb is not None:
        options += ["--memory", f"{hosting.memory_limit_mb}m"]
    return options


def _cgroupfs() -> bool:
    """Whether groups are made as files; systemd makes its own, and none inside of ours."""
    key = "{{.Host.CgroupManager}}" if tool().name == "podman" else "{{.CgroupDriver}}"
    return tool().ask("info", "--format", key).stdout.strip() == "cgroupfs"


class VnfContainer(HostedVnf):
    at_once = 4

    def __init__(
        self, common: Containers, vnf: Vnf, run: Path, prefix: str, namespace: str | None = None
    ) -> None:
        """`namespace`: where its ports are; None: it has no network."""
        super().__init__(vnf, run, prefix)
        self._own = self.folder / WRITABLE
        self._own.mkdir(exist_ok=True)
        self._socket = self._own / "sock"
        self._network = ["--network", "none"]
        if namespace is not None:
            network = tool().network(namespace, runtime.holder(namespace))
            self._network = ["--network", network, *_PACKET_SOCKETS]
        self.name = f"{common.tag}-{vnf.name}"
        self._common = common
        self._errors = self.folder / "start.stderr"
        self._starting: subprocess.Popen[bytes] | None = None
        self._process: Process | None = None
        self._made = False

    def start(self) -> None:
        self._clear_sockets()
        self._common.ledger.note("container", self.name)
        command = [tool().path, "start", self.name] if self._made else self._run_command()
        with self._errors.open("wb") as errors:
            self._starting = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True, env=tool().environment,
            )  # fmt: skip
        self._made = True

    def _run_command(self) -> list[str]:
        plan, folder = self._write_plan(), str(self.folder)
        options = ["--name", self.name, *self._network, "--volume", f"{folder}:{folder}:ro"]
        options += ["--volume", f"{self._own}:{self._own}"]
        for file in self.vnf.files:
            options += ["--volume", f"{file}:{file}:ro"]
        options += ["--cpuset-cpus", ",".join(map(str, self.vnf.lcores))]
        engine = ["--plan", str(plan), "--control", str(self._socket), "--with-client"]
        return [*self._common.run, *options, self._common.image, *engine]

    def connect(self) -> None:
        self._await_start()
        super().connect()

    def _await_start(self) -> None:
        if self._starting is None:
            return
        try:
            status = self._starting.wait(_START_S)
        except subprocess.TimeoutExpired:
            raise HeadraceError(f"{self.vnf.name}: not started after {_START_S:g} s") from None
        if status:
            words = last_words(self._errors.read_text(errors="replace"))
            raise HeadraceError(f"{self.vnf.name}: its container cannot be started: {words}")
        self._starting = None
        pid = runtime.pids([self.name]).get(self.name, 0)
        self._process = Process.of(pid) if pid else None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    def died(self) -> HeadraceError:
        state = "{{.State.ExitCode}} {{.State.OOMKilled}}"
        answer = tool().ask("container", "inspect", "--format", state, self.name).stdout.split()
        how = f"exit status {answer[0]}" if answer else "its container is gone"
        if answer[1:] == ["true"]:
            how += ", out of its memory_limit_mb"
        logs = tool().ask("logs", "--tail", _LAST_LINES, self.name)
        words = last_words(logs.stderr or logs.stdout)
        return HeadraceError(f"{self.vnf.name}: its engine died ({how}): {words}")

    def kill(self) -> None:
        self._await_start()
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            tool().ask("wait", self.name)
        self._process = None
        self._disconnect()

    def close(self) -> None:
        """Containers are removed all at once, by the ledger: it knows them by name."""
        if self._starting is not None:
            return
        deadline = time.monotonic() + (_QUIT_S if self.control is not None else 0)
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.alive:
            os.kill(self.pid, signal.SIGTERM)
        self._disconnect()
