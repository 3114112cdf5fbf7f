# SPDX-License-Identifier: Apache-2.0
"""Folders that commands write to."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import bad_value


def make_folder(path: Path, place: str = "--out") -> None:
    """One that is there already will do. BadInput names `place`."""
    if path.exists() and not path.is_dir():
        raise bad_value(place, str(path), problem="is no directory")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise bad_value(place, str(path), problem=f"cannot be made: {error.strerror}") from None
