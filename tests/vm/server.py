# SPDX-License-Identifier: Apache-2.0
"""A server of the lab, inside its guest (tests/vm/lab.sh): NICs, drivers, and an SSH server, until
the guest is ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from checks import interface, load, until

SHARE = Path("/run/share")
DEVICES = Path("/sys/bus/pci/devices")
MANAGEMENT = "0000:00:1e.0"
SSHD = f"""\
HostKey {SHARE}/host
AuthorizedKeysFile {SHARE}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
SetEnv XDG_RUNTIME_DIR=/run/headrace HEADRACE_ENGINE={os.environ["HEADRACE_ENGINE"]} \
PYTHONPATH={os.environ["PYTHONPATH"]}
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def main() -> int:
    load("virtio_net", "igb", "vfio-pci", "nf_tables")
    # An emulated IOMMU remaps no interrupts: the guest trusts its devices.
    trust = Path("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
    trust.write_text("Y")
    # Neighbour discovery and router solicitations would be counted as traffic.
    for kind in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6").write_text("1")
    for address in sorted(one.name for one in DEVICES.glob("0000:0[1-3]:00.0")):
        ip("link", "set", "dev", interface(address), "name", f"nic{int(address[6]) - 1}")
    # What QEMU's user network gives its only guest.
    management = next(DEVICES.glob(f"{MANAGEMENT}/virtio*/net/*")).name
    ip("address", "add", "10.0.2.15/24", "dev", management)
    ip("link", "set", "dev", management, "up")
    Path("/run/sshd").mkdir()
    Path("/run/sshd.conf").write_text(SSHD)
    sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", "/run/sshd.conf"])
    if until("the SSH server", lambda: sshd.poll() is not None or answers()):
        (SHARE / "listens").touch()
    return sshd.wait()


def answers() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", 22)) == 0


if __name__ == "__main__":
    sys.exit(main())
