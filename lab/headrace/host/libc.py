# SPDX-License-Identifier: Apache-2.0
"""The C library, for system calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os

C = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    """Raises what errno says of a call that failed."""
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
