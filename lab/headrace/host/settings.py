# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel changed for one run: read, noted in the run's ledger, set, put back.

They are in a network namespace each: sysctls, what /sys says of a device, a device's offloads.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from headrace.errors import HeadraceError
from headrace.record.frozen import Record

_TIMEOUT_S = 20
# /sys shows the devices of the namespace that it was mounted in.
_ENTER = 'mount -t sysfs sysfs /sys && exec "$@"'


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` in a namespace, given as a path; "" is this one."""
    if not namespace:
        return list(command)
    return ["nsenter", f"--net={namespace}", "unshare", "--mount", "sh", "-c", _ENTER, "sh",
            *command]  # fmt: skip


def run(namespace: str, command: Sequence[str]) -> str:
    """What it printed; a HeadraceError with its last words otherwise."""
    if shutil.which(command[0]) is None:
        raise HeadraceError(f"{command[0]}: not found; install it")
    done = subprocess.run(
        inside(namespace, command),
        capture_output=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        error = (done.stderr.strip() or f"ended with status {done.returncode}").splitlines()[-1]
        raise HeadraceError(f"{' '.join(command)}: {error}")
    return done.stdout


def cpu_mask(cpus: Iterable[int]) -> str:
    """The mask as the kernel prints bitmaps: groups of 32 bits."""
    value = sum(1 << c for c in cpus)
    groups: list[str] = []
    while value or not groups:
        groups.append(f"{value & 0xFFFFFFFF:08x}")
        value >>= 32
    return ",".join(reversed(groups))


class Setting(Record):
    """One value. `offload`: target is DEVICE:FEATURE as `ethtool -k` calls it, value on or off."""

    kind: Literal["file", "offload"] = "file"
    namespace: str  # a path, or "" for this one
    target: str
    value: str

    @property
    def text(self) -> str:
        if self.kind == "offload":
            device, _, feature = self.target.partition(":")
            return f"ethtool -K {device} {feature} {self.value}"
        return f"{self.target} = {self.value}"

    def read(self) -> str:
        if self.kind == "file":
            return run(self.namespace, ["cat", self.target]).strip()
        device, _, feature = self.target.partition(":")
        state = offloads(self.namespace, device).get(feature)
        if state is None:
            raise HeadraceError(f"{device}: has no offload {feature}")
        return state

    def write(self) -> None:
        if self.kind == "file":
            script = 'printf %s "$1" >"$2"'
            run(self.namespace, ["sh", "-c", script, "sh", self.value, self.target])
            return
        device, _, feature = self.target.partition(":")
        run(self.namespace, ["ethtool", "-K", device, feature, self.value])

    def with_value(self, value: str) -> Setting:
        return self.model_copy(update={"value": value})


def offloads(namespace: str, device: str) -> dict[str, str]:
    """Feature -> on or off."""
    states = {}
    for line in run(namespace, ["ethtool", "-k", device]).splitlines()[1:]:
        name, _, state = line.strip().partition(": ")
        states[name] = state.split()[0] if state else ""
    return states


def restore(noted: str) -> bool:
    """Put back what a ledger's line says was there before. False when its namespace has gone."""
    try:
        setting = Setting.model_validate_json(noted)
    except ValidationError:
        return False
    if setting.namespace and not Path(setting.namespace).exists():
        return False
    try:
        setting.write()
    except (HeadraceError, OSError, subprocess.TimeoutExpired):
        return False  # its device has gone
    return True
