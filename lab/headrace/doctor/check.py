# SPDX-License-Identifier: Apache-2.0
"""The form of a finding, and small helpers that all probes share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.record.frozen import Record

# ok: there. limited: works, with a cost that `means` names. missing: what needs it cannot run.
# unknown: could not be found out (as this user).
Status = Literal["ok", "limited", "missing", "unknown"]
INSTALL = "apt-get install -y "


class DoctorCheck(Record):
    name: str  # stable, for scripts
    group: str
    status: Status
    found: str  # what is there, in figures or names
    means: str | None = None  # what that does to measurements, when it is not plainly good
    mend: str | None = None  # the command that mends it; None: nothing on this machine can
    required: bool = False  # headrace cannot measure at all without it


@dataclass(frozen=True)
class CheckGroup:
    """What the checks of one heading have in common."""

    name: str

    def __call__(
        self, name: str, status: Status, there: str,
        means: str | None = None, mend: str | None = None, required: bool = False,
    ) -> DoctorCheck:  # fmt: skip
        return DoctorCheck(
            name=name, group=self.name, status=status, found=there, means=means, mend=mend,
            required=required,
        )  # fmt: skip


class Examination(Record):
    """What `headrace doctor` prints."""

    ready: bool  # headrace can measure here
    checks: tuple[DoctorCheck, ...]
    mend: tuple[str, ...]  # commands, the most needed first


def run(command: Sequence[str], seconds: float = 10.0) -> subprocess.CompletedProcess[str] | None:
    """None when it is not installed, may not be run or does not end in time."""
    if shutil.which(command[0]) is None:
        return None
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def root() -> bool:
    return os.geteuid() == 0


def sudo(command: str) -> str:
    """The command as this user would have to type it."""
    return command if root() else f"sudo sh -c '{command}'"


def apt(*packages: str) -> str:
    command = INSTALL + " ".join(packages)
    return command if root() else f"sudo {command}"
