# SPDX-License-Identifier: Apache-2.0
"""Servers with an SSH server each: network namespaces, which a lab in another one reaches."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from support.lab import COMMAND, wait_for
from support.netns import Lan, ip

SSHD = "/usr/sbin/sshd"
_CONFIG = """
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
SetEnv XDG_RUNTIME_DIR={runtime} HEADRACE_ENGINE={engine}
"""
# `ip netns exec` puts another /sys over this machine's, in which no control groups are.
_WITH_GROUPS = (
    'mount --rbind /sys/fs/cgroup "$0" && mount -t sysfs sys /sys && '
    'mount --rbind "$0" /sys/fs/cgroup && exec "$@"'
)


class Server:
    """One namespace; `runtime` is where headrace keeps its state there."""

    def __init__(self, name: str, namespace: str, runtime: Path, sshd: subprocess.Popen[str]):
        self.name, self.namespace, self.runtime, self.sshd = name, namespace, runtime, sshd

    @property
    def spec(self) -> dict[str, object]:
        return {"ssh": self.name, "headrace": [str(COMMAND)]}

    def left(self) -> list[str]:
        """What headrace has written down there, and processes of its programs."""
        base = self.runtime / "headrace"
        state = sorted(map(str, base.rglob("*"))) if base.exists() else []
        return [*state, *(text for _, text in self.processes())]

    def processes(self) -> list[tuple[int, str]]:
        """Those of headrace, agent and engine, in the namespace."""
        pids = ip("netns", "pids", self.namespace).split()
        of_servers = []
        for pid in map(int, pids):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            text = b" ".join(words).decode()
            if "headrace-engine" in text or text.rstrip().endswith(" agent"):
                of_servers.append((pid, text))
        return of_servers

    def sessions(self) -> list[int]:
        """Processes that the SSH server has for its connections."""
        pids = ip("netns", "pids", self.namespace).split()
        return [
            int(pid)
            for pid in pids
            if int(pid) != self.sshd.pid
            and Path(f"/proc/{pid}/cmdline").exists()
            and Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sshd:")
        ]


class Servers:
    """`lab` is the namespace in which headrace runs, with a `home` that has keys for them."""

    def __init__(
        self, lan: Lan, engine: Path, names: tuple[str, ...], *, containers: bool = False
    ) -> None:
        """`containers`: they can have some, for which control groups have to be seen there."""
        self._containers = containers
        self.lan, self.lab = lan, lan.namespace("lab")
        self.folder = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
        self.home = self.folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        Path("/run/sshd").mkdir(exist_ok=True)  # that of its user without rights
        for key in ("host", "user"):
            path = str(self.folder / key)
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path]
            subprocess.run(command, check=True)
        self._config = self.home / ".ssh" / "config"
        self.servers = {name: self._server(i, name, engine) for i, name in enumerate(names)}

    def _server(self, number: int, name: str, engine: Path) -> Server:
        namespace = self.lan.namespace(name)
        ours, theirs = f"10.9.{number}.1", f"10.9.{number}.2"
        self.lan.veth((self.lab, f"mg{number}"), (namespace, "mg"))
        self.lan.address(self.lab, f"mg{number}", f"{ours}/30")
        self.lan.address(namespace, "mg", f"{theirs}/30")
        runtime = self.folder / name
        runtime.mkdir(mode=0o700)
        file = self.folder / f"{name}.conf"
        file.write_text(
            _CONFIG.format(address=theirs, folder=self.folder, runtime=runtime, engine=engine)
        )
        sshd = self._started(namespace, SSHD, "-D", "-e", "-f", str(file))
        with self._config.open("a") as config:
            config.write(
                f"Host {name}\n HostName {theirs}\n User root\n IdentityFile {self.folder}/user\n"
            )
        with (self.home / ".ssh" / "known_hosts").open("a") as known:
            key = (self.folder / "host.pub").read_text()
            known.write(f"{theirs} {key}")
        probe = ["sh", "-c", f"exec 3<>/dev/tcp/{theirs}/22"]
        reach = ["ip", "netns", "exec", self.lab, "bash", *probe[1:]]
        assert wait_for(lambda: subprocess.run(reach, capture_output=True).returncode == 0, 10)
        return Server(name, namespace, runtime, sshd)

    def _started(self, namespace: str, *command: str) -> subprocess.Popen[str]:
        if not self._containers:
            return self.lan.start(namespace, *command)
        groups = self.folder / f"{namespace}.groups"
        groups.mkdir()
        enter = ["nsenter", f"--net=/run/netns/{namespace}", "unshare", "--mount"]
        enter += ["--propagation", "slave", "sh", "-c", _WITH_GROUPS, str(groups)]
        return subprocess.Popen(
            [*enter, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def environment(self) -> dict[str, str]:
        runtime = self.folder / "lab"
        runtime.mkdir(exist_ok=True, mode=0o700)
        return os.environ | {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(runtime)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self.servers.values():
            for pid in (*one.sessions(), one.sshd.pid):
                subprocess.run(["kill", str(pid)], capture_output=True)
            one.sshd.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
