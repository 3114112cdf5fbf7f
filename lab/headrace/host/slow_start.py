# SPDX-License-Identifier: Apache-2.0
"""What is said where a command is slow to start, as somebody's trial has the lcores: beside it a
command gets one part in a hundred of a core. What is refused at once is refused without it."""

from __future__ import annotations

import atexit
import os
import signal

TYPE_CHECKING = False  # typing's own is there a hundredth of a second later
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

AFTER_S = 5.0  # by then a command that has time has read its input


def begin(notice: Callable[[], str | None]) -> None:
    """Asks after a while what is to be said, in the main thread, which may be loading libraries: a
    second thread would keep the process from entering namespaces."""

    def tell(number: int, frame: FrameType | None) -> None:
        text = notice()
        if text is not None:
            os.write(2, f"{text}\n".encode())  # print may be under way

    signal.signal(signal.SIGALRM, tell)
    atexit.register(over)  # Python's end takes the handler away: then the signal would end it
    signal.setitimer(signal.ITIMER_REAL, AFTER_S)


def over() -> None:
    """All input was read: whose lcores those are is said when they are waited for."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
