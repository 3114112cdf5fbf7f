# SPDX-License-Identifier: Apache-2.0
"""Switches that are not the host engine's, made for a deployed chain."""

from __future__ import annotations

from pathlib import Path

from headrace.testbed.containers.ledger import Ledger
from headrace.testbed.hosting.bridged import KernelBridge
from headrace.testbed.hosting.ovs import OvsDpdk
from headrace.testbed.hosting.ports import TESTER, OnSwitch


def switch_of(wanted: OnSwitch | None, ledger: Ledger, run: Path) -> KernelBridge | OvsDpdk | None:
    """With a port for each VNF and for the tester; None where none is wanted."""
    if wanted is None:
        return None
    (run / TESTER).mkdir(exist_ok=True)
    try:
        if wanted.kind == "bridge":
            return KernelBridge(wanted.ports, ledger)
        return OvsDpdk(wanted, ledger, run)
    except BaseException:
        ledger.undo()
        raise
