# SPDX-License-Identifier: Apache-2.0
"""The kernel's netlink by pyroute2: `netlink.IPRoute`, `netlink.NetlinkError`, `netlink.netns`.

Loaded when one of them is first asked for: that takes a fifth of a second, and most commands make
no device.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyroute2

    return getattr(pyroute2, name)
