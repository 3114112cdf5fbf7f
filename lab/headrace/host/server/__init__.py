# SPDX-License-Identifier: Apache-2.0
"""What a server consists of, as its kernel says in sysfs (hwloc reads the same files)."""

from headrace.host.server.detect import detect

__all__ = ["detect"]
