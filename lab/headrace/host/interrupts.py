# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM: the first one ends what is being done, none breaks off its undoing.

Only the first raises KeyboardInterrupt: an impatient user's second one, while containers are
removed and the bundle is finished, would leave half of them. While they are held (`hold`) not even
the first does; it is raised when nobody holds them any more (`let_go`). Who cannot wait has
SIGKILL, and `headrace clean`.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False  # typing's own takes a hundredth of a second, in which nothing is caught
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

received: list[int] = []  # signals, in order
told = False  # the user knows what became of what was being done
_raised = False
_holders = 0
_SOON_S = 0.01  # in which a callback of Python's is over
_hook = sys.unraisablehook


def catch() -> None:
    """Catches them from now on, in the main thread."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A shell that starts a job in the background has it ignore SIGINT; a script still wants it.
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _lost


def ignore() -> None:
    """From now on all is undone: one more, while Python ends, would change the exit status."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def leave() -> NoReturn:
    """The program's end by a signal, with the status that shells expect."""
    ignore()
    if not told:
        print("headrace: interrupted", file=sys.stderr)
    sys.exit(128 + received[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    received.append(number)
    _raise_first()


def _lost(raised: sys.UnraisableHookArgs) -> None:
    """Has it raised again where it came in a callback, as that of an import's lock, which nothing
    can leave: it would be printed, and as the first one be the last."""
    global _raised
    if raised.exc_type is not KeyboardInterrupt or not received:
        _hook(raised)
        return
    _raised = False
    _thread.start_new_thread(_again, ())


def _again() -> None:
    time.sleep(_SOON_S)
    os.kill(os.getpid(), received[0])


def pending() -> bool:
    """Whether one has come and will be raised."""
    return bool(received) and not _raised


def _raise_first() -> None:
    global _raised
    if pending() and not _holders:
        _raised = True
        raise KeyboardInterrupt


def hold() -> None:
    """Each call needs one of `let_go`."""
    global _holders
    _holders += 1


def let_go() -> None:
    """KeyboardInterrupt, when a signal came meanwhile, and was the first."""
    global _holders
    _holders -= 1
    _raise_first()
