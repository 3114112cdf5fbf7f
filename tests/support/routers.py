# SPDX-License-Identifier: Apache-2.0
"""VNFs with real routing daemons behind one offloading engine, and hosts around them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from headrace.ground.offload.asked import service_of
from headrace.ground.offload.namespaces import of
from headrace.ground.offload.service import Service
from headrace.spec.document import load
from headrace.spec.offload import OffloadService
from support.netns import Lan, ip, run

BGP = """\
hostname {name}
router bgp {asn}
 bgp router-id {router_id}
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp graceful-restart-disable
 timers bgp 1 3
{neighbours}
 address-family ipv4 unicast
{networks}
 exit-address-family
"""


def daemons_missing() -> str | None:
    """Why no routing daemons can be run; None when they can."""
    for program in ("/usr/lib/frr/zebra", "/usr/lib/frr/bgpd", "/usr/sbin/bird"):
        if not os.access(program, os.X_OK):
            return f"{program} is missing: scripts/setup.sh offload"
    return None if shutil.which("vtysh") else "vtysh is missing: scripts/setup.sh offload"


def frr(name: str, asn: int, neighbours: dict[str, int], networks: tuple[str, ...]) -> str:
    lines = []
    for address, remote in neighbours.items():
        lines += [
            f" neighbor {address} remote-as {remote}",
            f" neighbor {address} timers connect 1",
        ]
    return BGP.format(
        name=name,
        asn=asn,
        router_id=f"10.255.0.{asn % 256}",
        neighbours="\n".join(lines),
        networks="\n".join(f"  network {network}" for network in networks),
    )


class Hosts(Lan):
    """Namespaces of end hosts, each by a veth whose other end the engine has, in this namespace."""

    def host(self, name: str, address: str, gateway: str) -> tuple[str, str]:
        """Its namespace, and the device for the spec."""
        namespace = self.namespace(name)
        outer = f"{self.prefix}{name}"
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        for command in (["ip", "link", "set", outer, "up"],
                        ["sysctl", "-qw", f"net.ipv6.conf.{outer}.disable_ipv6=1"],
                        ["ethtool", "-K", outer, "tx", "off", "rx", "off", "gso", "off",
                         "tso", "off", "gro", "off"]):  # fmt: skip
            run(*command)
        self.plain(namespace, "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")
        self.address(namespace, "eth0", address)
        ip("-n", namespace, "route", "add", "default", "via", gateway)
        return namespace, f"net_af_packet_{name},iface={outer}"


class Routers:
    """A running service; `files` are written beside its spec. `service`: its name, its ports and
    its VNFs."""

    def __init__(self, folder: Path, service: dict[str, Any], files: dict[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        file = folder / "spec.yaml"
        hosting = {"kind": "offload", "ports": service["ports"], "vnfs": service["vnfs"]}
        deployment = {"hugepages": False, "memory_mb": 256, "hosting": hosting}
        study = {"name": service["name"], "deployment": deployment}
        file.write_text(yaml.safe_dump(study, sort_keys=False))
        doc = load(file)
        spec_read = service_of(doc)
        assert isinstance(spec_read, OffloadService)
        self.spec = spec_read
        self.said: list[str] = []
        self.service = Service(self.spec, doc, self.said.append)

    def __enter__(self) -> Self:
        self.service.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.service.close()

    def vnf(self, name: str) -> dict[str, Any]:
        [shown] = [v for v in self.service.show().vnfs if v.name == name]
        return shown.model_dump()

    def goes(self, vnf: str, address: str) -> str:
        return str(self.service.update(op="lookup", vnf=vnf, address=address)["does"])

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 30) -> float:
        """Watching the daemons meanwhile; how long it took."""
        began = time.monotonic()
        while not done():
            assert time.monotonic() < began + seconds, f"{what}: not after {seconds} s; {self.said}"
            self.service.watch()
            time.sleep(0.02)
        return time.monotonic() - began

    def kill(self, vnf: str, daemon: str) -> None:
        killed = 0
        for pid in run("ip", "netns", "pids", of(self.spec, vnf)).split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == daemon:
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
        assert killed == 1

    def vtysh(self, vnf: str, *commands: str) -> str:
        folder = self.service._state.path / f"vnf-{vnf}"
        arguments = [word for command in commands for word in ("-c", command)]
        return run("vtysh", "--vty_socket", str(folder), *arguments)

    def counters(self) -> dict[str, Any]:
        assert self.service.engine is not None
        [replica] = self.service.engine.request("read")["segments"]["offload"]
        return dict(replica["nfs"]["router"])


class Pings:
    """Echoes in the background; what became of them."""

    def __init__(self, lan: Lan, namespace: str, to: str, count: int, interval: float) -> None:
        self.process = lan.start(
            namespace, "ping", "-q", "-c", str(count), "-i", str(interval), "-W", "5", to
        )

    def lost(self) -> tuple[int, int]:
        """Sent and lost."""
        text, _ = self.process.communicate(timeout=120)
        [line] = [x for x in text.splitlines() if "packets transmitted" in x]
        words = line.split()
        return int(words[0]), int(words[0]) - int(words[3])


def reaches(lan: Lan, namespace: str, to: str) -> bool:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, "ping", "-c", "1", "-W", "1", to],
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0
