# SPDX-License-Identifier: Apache-2.0
"""On which CPUs the kernel takes the packets of an interface."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.host.ledger import Ledger
from headrace.host.settings import Setting, cpu_mask

_NET = Path("/sys/class/net")


def steer(interface: str, cpus: Iterable[int], ledger: Ledger) -> None:
    """Steers to these (receive packet steering), until the ledger is undone. It goes with an
    interface that is moved."""
    mask = cpu_mask(cpus)
    for file in (_NET / interface).glob("queues/rx-*/rps_cpus"):
        setting = Setting(namespace="", target=str(file), value=mask)
        ledger.note("setting", setting.with_value(setting.read()).model_dump_json())
        setting.write()
