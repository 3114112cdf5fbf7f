# SPDX-License-Identifier: Apache-2.0
"""Virtual functions given to VNFs in virtual machines, inside a guest (tests/vm/run.sh
sriov_machines): guests within a guest, emulated by what is emulated itself."""

from __future__ import annotations

import os
import sys

from checks import Checks
from sriov import gone, prepared, pvvp, spec

# Emulated twice a guest takes minutes to boot, and a packet is a matter of milliseconds.
MACHINE = "{accel: tcg, memory_mb: 320, boot: 1500}"
MEASURE = "loads: [10], trial: 5 s, drain: 10.0"
PACKETS_MIN = 10


def main() -> int:
    checks = Checks()
    pf, peer = prepared(checks)
    os.environ["HEADRACE_VM_ENGINE"] = os.environ["HEADRACE_ENGINE"]
    file = spec("pvvp-vm", pf, "af_packet", kind="vm")
    text = file.read_text().replace("wait: adaptive", f"wait: adaptive, vm: {MACHINE}")
    file.write_text(text.replace("loads: [200], trial: 2 s, drain: 2.0", MEASURE))
    pvvp(checks, pf, peer, "af_packet", "vm", file, PACKETS_MIN)
    gone(checks, "after it", pf)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
