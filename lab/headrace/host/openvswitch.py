# SPDX-License-Identifier: Apache-2.0
"""An Open vSwitch of a run's own: database, sockets and logs in the run's directory, apart from the
system's."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.host.ledger import Ledger
from headrace.host.numa import node_of
from headrace.host.plumbing import make_namespace, within
from headrace.host.processes import Process
from headrace.host.programs import VSWITCHD

_TIMEOUT_S = 30
_SOCKET_PATH_MAX = 107
_SWITCH = "switch.ovs"  # no container of a chain has such a name
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_WITH_DPDK = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"  # Debian's and Ubuntu's
_ENABLED = re.compile(r"port: (\S+)\s+queue-id:\s+\d+ \(enabled\)")


class OpenVswitch:
    """Two daemons and one bridge of the userspace datapath, which only knows given OpenFlow rules.

    They run in a network namespace of their own: every userspace datapath has a device
    `ovs-netdev`, so that there could be only one of them, this run's or somebody else's.
    """

    def __init__(
        self,
        tag: str,
        ledger: Ledger,
        directory: Path,
        program: str = VSWITCHD,
        settings: Iterable[str] = (),
    ) -> None:
        """`settings`: of the database's one row Open_vSwitch, before the switch starts."""
        self.ledger = ledger
        self.directory = directory
        self.bridge = f"{tag}o"
        longest = self.management
        if len(longest.encode()) > _SOCKET_PATH_MAX:
            raise HeadraceError(
                f"{longest}: too long for a socket ({_SOCKET_PATH_MAX} bytes, unix(7)); set "
                "XDG_RUNTIME_DIR to a folder with a shorter name"
            )
        self.namespace = f"{tag}-{_SWITCH}"
        make_namespace(self.namespace, ledger)
        self.daemons: list[int] = []  # processes
        self.pid = self._start(program, list(settings))

    @property
    def management(self) -> str:
        return f"{self.directory}/{self.bridge}.mgmt"

    @property
    def database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    def _start(self, program: str, settings: list[str]) -> int:
        self.ledger.note("path", str(self.directory))
        self.directory.mkdir(mode=0o700)
        self.tool("ovsdb-tool", "create", f"{self.directory}/conf.db", _SCHEMA)
        remote = f"--remote=punix:{self.directory}/db.sock"
        self._daemon("ovsdb-server", "ovsdb-server", remote, f"{self.directory}/conf.db")
        self.vsctl("--no-wait", "init")
        if settings:
            self.vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings)
        pid = self._daemon(VSWITCHD, program, self.database)
        self.vsctl("add-br", self.bridge, "--", "set", "bridge", self.bridge,
                   "datapath_type=netdev", "fail_mode=secure")  # fmt: skip
        return pid

    def _daemon(self, name: str, program: str, *arguments: str) -> int:
        """Its process; `name` is what its files are called, whatever program it is."""
        pidfile = self.directory / f"{name}.pid"
        self.ledger.note("pidfile", str(pidfile))
        log, control = self.directory / f"{name}.log", self.directory / f"{name}.ctl"
        self.tool(program, f"--pidfile={pidfile}", "--detach", f"--log-file={log}",
                  f"--unixctl={control}", "-vconsole:off", *arguments)  # fmt: skip
        process = Process.of(int(pidfile.read_text()))
        if process is None:
            raise HeadraceError(f"{name}: ended at once; see {log}")
        self.ledger.note("process", f"{process.pid}:{process.started}")
        self.daemons.append(process.pid)
        return process.pid

    def tool(self, name: str, *arguments: str) -> str:
        try:
            done = within(self.namespace, lambda: self._run(name, *arguments))
        except subprocess.TimeoutExpired:
            message = f"no answer within {_TIMEOUT_S:g} s"
            raise HeadraceError(f"{Path(name).name}: {message}") from None
        if done.returncode:
            message = (done.stderr.strip() or "failed").splitlines()[-1]
            raise HeadraceError(f"{Path(name).name}: {message}")
        return done.stdout

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs it in the namespace that the calling thread is in."""
        return subprocess.run(
            [find_tool(name), *arguments],
            capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
            env={"PATH": _PATH, "OVS_RUNDIR": str(self.directory),
                 "RUNTIME_DIRECTORY": str(self.directory),  # DPDK's own files
                 "OVS_LOGDIR": str(self.directory), "OVS_DBDIR": str(self.directory)},
        )  # fmt: skip

    def vsctl(self, *arguments: str) -> None:
        self.tool("ovs-vsctl", f"--db={self.database}", f"--timeout={_TIMEOUT_S}", *arguments)

    def ask(self, command: str, *arguments: str) -> str:
        """What the switch itself says to a command of its control socket."""
        path = f"{self.directory}/{VSWITCHD}.ctl"
        question = {"id": 0, "method": command, "params": arguments}
        try:
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(_TIMEOUT_S)
                asked.connect(path)
                asked.sendall(json.dumps(question).encode())
                answer = _answer(asked)
        except (OSError, ValueError) as error:
            raise HeadraceError(f"{VSWITCHD}: {command}: {error}") from None
        if answer["error"] is not None:
            raise HeadraceError(f"{VSWITCHD}: {command}: {str(answer['error']).strip()}")
        return str(answer["result"])

    def polled(self) -> set[str]:
        """The ports whose queues its pollers have."""
        return set(_ENABLED.findall(self.ask("dpif-netdev/pmd-rxq-show")))

    def last_error(self) -> str:
        """The error as its log has it."""
        log = self.directory / f"{VSWITCHD}.log"
        errors = [line for line in log.read_text(errors="replace").splitlines() if "|ERR|" in line]
        return errors[-1].rpartition("|")[2] if errors else "its log has no error"

    def keep_on(self, cpus: Collection[int]) -> None:
        """All threads that it has before a port is added: its pollers come with ports, on lcores of
        their own."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.sched_setaffinity(int(task.name), cpus)

    def add_flows(self, rules: list[str]) -> None:
        file = self.directory / "flows"
        file.write_text("\n".join(rules) + "\n")
        self.tool("ovs-ofctl", "add-flows", f"unix:{self.management}", str(file))

    def flows(self, match: str) -> str:
        """Those of the bridge that are within, with their counters."""
        return self.tool("ovs-ofctl", "dump-flows", f"unix:{self.management}", match)


def _answer(asked: socket.socket) -> dict[str, object]:
    """The one object of JSON that comes (RFC 7047, section 4)."""
    text = b""
    while part := asked.recv(1 << 16):
        text += part
        with contextlib.suppress(ValueError):
            answer: dict[str, object] = json.loads(text)
            return answer
    raise ValueError("no answer")


def dpdk_settings(
    megabytes: int,
    prefix: str,
    pollers: Collection[int],
    per_port: bool,
    sleep_us: int = 0,
    huge: bool = False,
) -> list[str]:
    """Memory that others can share, ordinary or in hugepages (`huge`; of each node that has a
    poller); a poller on each of these lcores. `sleep_us`: an idle one sleeps that long, at most."""
    extra = "--single-file-segments --iova-mode=va --no-pci --no-telemetry "
    extra += "--in-memory" if huge else f"--no-huge --legacy-mem -m {megabytes} --no-shconf"
    nodes = {node_of(cpu) for cpu in pollers} if huge else set()
    of_nodes = (str(megabytes if node in nodes else 0) for node in range(max(nodes, default=0) + 1))
    return [
        "other_config:dpdk-init=true",
        *([f'other_config:dpdk-socket-mem="{",".join(of_nodes)}"'] if huge else []),
        f'other_config:dpdk-extra="{extra} --file-prefix={prefix}"',
        f"other_config:pmd-cpu-mask={sum(1 << cpu for cpu in pollers):#x}",
        f"other_config:per-port-memory={'true' if per_port else 'false'}",
        f"other_config:pmd-maxsleep={sleep_us}",
    ]


def find_tool(tool: str) -> str:
    """A program of Open vSwitch; its daemons are not in an ordinary user's PATH."""
    path = shutil.which(tool) or shutil.which(tool, path=_PATH)
    if path is None:
        raise HeadraceError(f"{tool}: not found; install it (`apt-get install openvswitch-switch`)")
    return path


def dpdk_program() -> str | None:
    """The switch with DPDK. Debian has two packages of it; which one is in PATH is an alternative
    that is not ours to change."""
    if os.access(_WITH_DPDK, os.X_OK):
        return _WITH_DPDK
    program = shutil.which(VSWITCHD) or shutil.which(VSWITCHD, path=_PATH)
    if program is None:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return program if "DPDK" in version.stdout else None


def dpdk_lacking() -> str | None:
    """What to do where there is none."""
    if dpdk_program() is not None:
        return None
    return (
        "Open vSwitch with DPDK is not installed; `scripts/setup.sh switches` does, or "
        "`apt-get install openvswitch-switch-dpdk`"
    )
