# SPDX-License-Identifier: Apache-2.0
"""The files of a bundle, which may be a stranger's: a link would lead to a file of whoever reads
it, a pipe blocks, a device has no end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from headrace.errors import BadInput
from headrace.spec.invalid import sentence

M = TypeVar("M", bound=BaseModel)

TEXT_MOST = 64 << 20  # bytes; the longest are the samples of a long run
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class BundleError(BadInput):
    """Names the place in the bundle, what is there and what is allowed."""


def opened(folder: Path, name: str) -> BinaryIO | None:
    """A regular file below `folder`, which may itself be a link; None: there is none."""
    place = folder / name
    *above, last = name.split("/")
    if "\0" in name or not {"", ".", ".."}.isdisjoint((*above, last)):
        raise BundleError(f"{place}: is no file of the bundle's own")
    try:
        pinned = _pinned(folder, above, last)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            raise _not_regular(place) from None
        raise BundleError(f"{place}: cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(pinned).st_mode):
            raise _not_regular(place)
        return Path(f"/proc/self/fd/{pinned}").open("rb")
    except OSError as error:
        raise BundleError(f"{place}: cannot be read: {error.strerror}") from None
    finally:
        os.close(pinned)


def regular(folder: Path, name: str) -> Path:
    """Says where it is, for what reads files by their paths; it must be there."""
    file = opened(folder, name)
    if file is None:
        raise BundleError(f"{folder / name}: {os.strerror(errno.ENOENT)}")
    file.close()
    return folder / name


def _pinned(folder: Path, above: list[str], last: str) -> int:
    """It is not opened yet: that alone can block, or rewind a tape."""
    at = os.open(folder, _FOLDER)
    try:
        for part in above:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _not_regular(place: Path) -> BundleError:
    return BundleError(f"{place}: is no regular file; allowed: a file of the bundle's own")


def text(folder: Path, name: str) -> str | None:
    file = opened(folder, name)
    return None if file is None else _read(file, folder / name)


def _read(file: BinaryIO, place: Path) -> str:
    with file:
        try:
            data = file.read(TEXT_MOST + 1)
        except OSError as error:
            raise BundleError(f"{place}: cannot be read: {error.strerror}") from None
    if len(data) > TEXT_MOST:
        raise BundleError(f"{place}: is too long; allowed: at most {TEXT_MOST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"{place}: cannot be read: not UTF-8 text (byte {error.start})") from None


def sample_file(samples: Path, name: str) -> BinaryIO | None:
    """A file of a folder of samples: of a bundle's, where no part of the way from the bundle may be
    a link (`samples`, `samples/NAME`), or one that stands alone. None: there is none."""
    for bundle in samples.parents[:2]:
        way = samples.relative_to(bundle)
        if way.parts[0] == "samples":
            return opened(bundle, f"{way.as_posix()}/{name}")
    return opened(samples, name)


def sample_text(samples: Path, name: str) -> str | None:
    file = sample_file(samples, name)
    return None if file is None else _read(file, samples / name)


def sample_record(samples: Path, name: str, model: type[M]) -> M | None:
    """A file of a folder of samples, as JSON of this form."""
    told = sample_text(samples, name)
    try:
        return None if told is None else model.model_validate_json(told)
    except ValidationError as error:
        raise BundleError(f"{samples / name}: {sentence(error)}") from None
