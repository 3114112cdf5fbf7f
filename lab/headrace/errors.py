# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can act on; the command line prints one message, never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

EXIT_BAD_INPUT = 2
EXIT_FAILURE = 1
EXIT_CONTRADICTED = 3  # a claim of the study, with --claims
EXIT_NOT_COMPARABLE = 4  # no claim was contradicted, but one could not be judged; with --claims
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class HeadraceError(Exception):
    """Something went wrong that is not the input's fault: exit status 1."""

    exit_status = EXIT_FAILURE


class BadInput(HeadraceError):
    """Input that cannot be used: names the place, the value and what is allowed. Exit status 2."""

    exit_status = EXIT_BAD_INPUT


_NO_VALUE = object()


def bad_value(place: str, value: Any = _NO_VALUE, allowed: str = "", problem: str = "") -> BadInput:
    """A BadInput in the one form of all messages: place, value, problem, what is allowed."""
    parts = []
    if value is not _NO_VALUE:
        parts.append(f"got {shown(value)}")
    if problem:
        parts.append(problem)
    if allowed:
        parts.append(f"allowed: {allowed}")
    return BadInput(f"{place}: {'; '.join(parts)}")


def unknown(key: str, allowed: Iterable[str], what: str = "unknown key") -> str:
    """What is wrong with a word of a closed set, and what was probably meant."""
    names = list(allowed)
    close = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.7)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{what}{meant}; allowed: {', '.join(names) or 'none'}"


def shown(value: Any, limit: int = 120) -> str:
    """A value as it may stand in a message: as a file has it, on one line and not endless."""
    if value is None:
        return "nothing"
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    except ValueError:  # a number with more digits than Python writes
        return "a number of thousands of digits"
    if isinstance(value, date):
        text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def unwritable(path: Path, error: OSError) -> HeadraceError:
    return HeadraceError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}")
