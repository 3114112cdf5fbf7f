# SPDX-License-Identifier: Apache-2.0
"""Where what was learnt about this server is kept: its calibration, profiles of NFs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headrace.errors import BadInput, bad_value
from headrace.host.programs import shipped
from headrace.host.server import detect
from headrace.spec.calibration import Calibration
from headrace.spec.document import Document
from headrace.spec.invalid import sentence
from headrace.spec.server_file import read_server

M = TypeVar("M", bound=BaseModel)


def home() -> Path:
    """$HEADRACE_HOME, or the user's data directory (XDG base directory specification)."""
    named = os.environ.get("HEADRACE_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "headrace"


def calibration_file() -> Path:
    return home() / "calibration.json"


def calibration() -> Calibration | None:
    """This server's; None where it has none, or one that came from another server."""
    file = calibration_file()
    if not file.exists():
        return None
    stored = load(file, Calibration)
    return stored if stored.server.hostname == detect().hostname else None


def profiles_folder() -> Path:
    return home() / "profiles"


def server_named(doc: Document, given: str, place: str = "server") -> Path:
    """The name of a server that headrace describes, or a path beside the spec. `place`: where it
    was given."""
    return _server_file(given, doc.resolve, place)


def server_alone(given: str, place: str) -> Path:
    """The name of a server that headrace describes, or a path from where the user is: where there
    is no spec."""
    return _server_file(given, Path, place)


def _server_file(given: str, beside: Callable[[str], Path], place: str) -> Path:
    own = shipped("servers") / f"{given}.yaml"
    # Not asked where the name is known: a bundle, which has no copies of these, would refuse.
    if own.is_file():
        return own
    if (file := beside(given)).is_file():
        return file
    names = ", ".join(sorted(file.stem for file in shipped("servers").glob("*.yaml")))
    raise bad_value(place, given, problem="no such file", allowed=f"a file, or one of {names}")


def server_given(doc: Document, given: str) -> Path:
    """A server as a command line has it: the name of a server that headrace describes, or a path
    from where the user is, or else beside the spec."""
    own = shipped("servers") / f"{given}.yaml"
    if given and not own.is_file() and (here := Path(given)).is_file():
        return here.resolve()
    return server_named(doc, given)


def server_files(doc: Document, given: str) -> dict[str, Path]:
    """What a bundle needs to be replayed elsewhere, by the names that the spec and the description
    use: the description, and the one that its costs are from. None of headrace's own servers."""
    file = server_named(doc, given)
    if file.parent == shipped("servers"):
        return {}
    described, server = read_server(file, doc)
    costs = server.costs
    named = {} if costs is None else {str(costs): described.resolve(costs)}
    return {given: file, **named}


def save(file: Path, model: BaseModel) -> None:
    """Whole or not at all: a run that is interrupted must not leave half a file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        temporary.write_text(model.model_dump_json(indent=1, by_alias=True) + "\n")
        temporary.replace(file)
    except OSError as e:
        raise BadInput(
            f"{file}: cannot be written: {e.strerror}; allowed: a file in a directory that may be "
            "written"
        ) from None


def load(file: Path, model: type[M]) -> M:
    try:
        return model.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"{file}: cannot be read: {e}") from None
    except ValidationError as e:
        raise BadInput(f"{file}: {sentence(e)}") from None
