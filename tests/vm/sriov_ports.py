# SPDX-License-Identifier: Apache-2.0
"""40 VNFs on 80 virtual functions of twelve emulated ports that a hub joins, inside a guest
(tests/vm/run.sh sriov_ports)."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from checks import Checks, functions, interface, load, namespaces, state
from several_ports import spread

VNFS = 40  # with two functions each, as the tester has: 82 of the 84 that twelve ports can have


def ports() -> list[str]:
    """Addresses of all that can have functions."""
    files = Path("/sys/bus/pci/devices").glob("*/sriov_totalvfs")
    return sorted(one.parent.name for one in files)


def main() -> int:
    checks = Checks()
    load("igb", "igbvf", "veth")
    addresses = ports()
    checks.equal("ports", len(addresses), 12)
    names = [interface(one) for one in addresses]
    for kind in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6").write_text("1")
    spread(checks, names, VNFS)
    left = Counter(functions(one) for one in addresses)
    checks.equal("functions left", left, Counter({0: len(addresses)}))
    checks.equal("namespaces, state left", [namespaces(), state()], [[], []])
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
