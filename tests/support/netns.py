# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and veth pairs with the kernel's own stack in them, for one test."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


def ip(*arguments: str) -> str:
    return run("ip", *arguments)


def run(*command: str, timeout: float = 60) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}: {done.stderr}"
    return done.stdout


def netns_refusal() -> str | None:
    """Why no namespace can be made here; None when one can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"no network namespaces: {probe.stderr.strip()}"


def devices_and_rules() -> tuple[set[str], str]:
    """What a deployment could leave on the host, or put through its firewall."""
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False)
    return {path.name for path in Path("/sys/class/net").iterdir()}, rules.stdout


_serial = itertools.count()


class Lan:
    """Names are unique by process, so that tests may run beside each other, and by test: what is
    in a namespace outlives the namespace by a moment, and its name with it."""

    def __init__(self) -> None:
        self.prefix = f"hr{os.getpid() % 100000}x{next(_serial):x}"
        self.namespaces: list[str] = []

    def __enter__(self) -> Self:
        return self

    def namespace(self, name: str) -> str:
        full = f"{self.prefix}{name}"
        ip("netns", "add", full)
        self.namespaces.append(full)
        ip("-n", full, "link", "set", "lo", "up")
        # Neighbour discovery and router solicitations would be counted as traffic.
        self.sysctl(full, "net.ipv6.conf.all.disable_ipv6", "1")
        self.sysctl(full, "net.ipv6.conf.default.disable_ipv6", "1")
        return full

    def sysctl(self, namespace: str, key: str, value: str) -> None:
        self.inside(namespace, "sh", "-c", f"echo {value} >/proc/sys/{key.replace('.', '/')}")

    def veth(self, a: tuple[str, str], b: tuple[str, str]) -> None:
        """A pair of interfaces, each given as (namespace, name); both up, no offloads."""
        (ns_a, if_a), (ns_b, if_b) = a, b
        ip("link", "add", if_a, "netns", ns_a, "type", "veth", "peer", "name", if_b, "netns", ns_b)
        for namespace, interface in (a, b):
            self.plain(namespace, interface)
            ip("-n", namespace, "link", "set", interface, "up")

    def plain(self, namespace: str, interface: str) -> None:
        """What the stack would leave to a NIC must be in the packets that a DPDK port sees."""
        self.inside(
            namespace, "ethtool", "-K", interface, "tx", "off", "rx", "off", "tso", "off",
            "gso", "off", "gro", "off",
        )  # fmt: skip

    def address(self, namespace: str, interface: str, address: str) -> None:
        ip("-n", namespace, "addr", "add", address, "dev", interface)

    def inside(self, namespace: str, *command: str, timeout: float = 60) -> str:
        return run("ip", "netns", "exec", namespace, *command, timeout=timeout)

    def start(self, namespace: str, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["ip", "netns", "exec", namespace, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for namespace in self.namespaces:
            with suppress(AssertionError):
                ip("netns", "del", namespace)
