# SPDX-License-Identifier: Apache-2.0
"""The engine's own description of its links and NFs: the only source of their parameters."""

from __future__ import annotations

import ipaddress
import json
import re
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from pydantic import RootModel

from headrace.errors import EXIT_BAD_INPUT, BadInput, HeadraceError, unknown
from headrace.record.frozen import Record
from headrace.record.own import TEXT_MOST
from headrace.spec.document import Document, PathKey
from headrace.spec.vm import APPLIANCE, appliance_description

_MAC = re.compile(r"^([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}$")
_CAPTURE_S = 300.0
_MAC_WORDS = "a MAC address such as 02:00:00:00:00:01"


class OtherEngine(HeadraceError):
    """An engine that was built from other sources than the lab: what it refuses is no user's
    mistake."""

    def __init__(self, engine: Path, why: str, age: str = "older") -> None:
        super().__init__(
            f"engine {engine} is {age} than this lab ({why}): build it again (`make setup`)"
        )


class LinkDescription(Record):
    """What a link is, as the engine says it."""

    doc: str
    reads: bool  # may be a segment's input
    writes: bool  # may be a segment's output
    params: dict[str, Any]  # a JSON Schema


class FunctionDescription(Record):
    """What a network function is, as the engine says it."""

    doc: str
    standards: str
    category: str
    reads: tuple[str, ...]  # parts of the packet
    writes: tuple[str, ...]
    may_drop: bool
    changes_volume: bool
    state_key: str
    edges: tuple[str, ...]
    drops: tuple[str, ...]  # reasons
    policy_drops: tuple[str, ...]  # of these, no loss by measure.losses "unintended"
    counters: tuple[str, ...]
    updates: bool  # its tables can be replaced while packets flow
    offloads: bool  # it can tell a host what to do to a flow's next packets (docs/hosting.md)
    keeps: bool  # it has no state of flows, or writes checkpoints of it (docs/hosting.md)
    params: dict[str, Any]  # a JSON Schema


class DescribedNames(RootModel[dict[str, FunctionDescription | LinkDescription]]):
    """headrace nf NAME"""


class DescribedKinds(Record):
    """What `headrace nf` prints."""

    nfs: dict[str, FunctionDescription]
    links: dict[str, LinkDescription]


@dataclass(frozen=True)
class Description:
    """What `headrace-engine --describe` says. `functions`: shared objects that it loaded."""

    engine: Path
    data: dict[str, Any]
    functions: tuple[Path, ...] = ()

    @property
    def nfs(self) -> dict[str, dict[str, Any]]:
        """The engine's, and the user's own images, which are described alike."""
        kinds: dict[str, dict[str, Any]] = self.data["nfs"]
        return {**kinds, APPLIANCE: appliance_description()}

    @property
    def links(self) -> dict[str, dict[str, Any]]:
        kinds: dict[str, dict[str, Any]] = self.data["links"]
        return kinds

    def edges(self, nf: str) -> list[str]:
        return list(self.nfs[nf].get("edges") or ["out"])


@cache
def describe(engine: Path, functions: tuple[Path, ...] = ()) -> Description:
    """BadInput where one of `functions`, shared objects, is none that the engine can load."""
    loads = [word for file in functions for word in ("--load", str(file))]
    try:
        done = subprocess.run(
            [engine, *loads, "--describe"], capture_output=True, errors="replace", timeout=30,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HeadraceError(f"{engine} --describe: {error}") from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        if functions and done.returncode == EXIT_BAD_INPUT:
            raise BadInput(words[0].removeprefix("headrace-engine: "))
        raise HeadraceError(f"{engine} --describe: {words[0]}")
    try:
        return Description(engine, json.loads(done.stdout), functions)
    except json.JSONDecodeError as error:
        raise HeadraceError(f"{engine} --describe: not JSON: {error}") from None


class Captured(Record):
    """What a capture is, before there are packet buffers."""

    packets: int = 0
    largest_bytes: int = 0  # without FCS
    period_ns: int = 0  # until a replay in its own timing begins again

    @property
    def pps(self) -> float | None:
        """Its mean rate; None where all packets have the same time."""
        return self.packets * 1e9 / self.period_ns if self.period_ns else None


def captured(engine: Path, capture: Path) -> Captured:
    """Nothing of what is no capture: what is wrong with it is said where the engine reads it as
    traffic."""
    try:
        done = subprocess.run(
            [engine, "--capture", capture], capture_output=True, timeout=_CAPTURE_S, check=False
        )
        return Captured.model_validate_json(done.stdout) if done.returncode == 0 else Captured()
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise HeadraceError(f"{engine} --capture {capture}: {error}") from None


def check_params(
    schema: dict[str, Any], params: dict[str, Any], doc: Document, at: tuple[PathKey, ...]
) -> None:
    """Validate against the engine's schema; the error names the place in the spec."""
    validator = Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(params), key=lambda error: list(map(str, error.path)))
    if errors:
        raise translate(errors[0], doc, (*at, *errors[0].absolute_path))
    _check_formats(schema, params, doc, at)


def translate(error: ValidationError, doc: Document, path: tuple[PathKey, ...]) -> BadInput:
    """What the engine's schema refuses, at its place in the spec."""
    kind = error.validator
    value: Any = error.instance
    limit: Any = error.validator_value
    schema: dict[str, Any] = dict(error.schema) if isinstance(error.schema, dict) else {}
    if kind == "additionalProperties":
        known = schema.get("properties", {})
        key = next(str(key) for key in value if key not in known)
        return doc.error((*path, key), unknown(key, known, "unknown parameter"))
    if kind == "required":
        missing = next(key for key in limit if key not in value)
        about = schema.get("properties", {}).get(missing, {}).get("description")
        return doc.error(path, f"{missing!r} is missing" + (f": {about}" if about else ""))
    if kind == "pattern" and schema.get("format") == "mac":
        return doc.error(path, f"allowed: {_MAC_WORDS}", value=value)
    allowed = {
        "enum": lambda: ", ".join(map(str, limit)),
        "type": lambda: _type_words(schema),
        "minimum": lambda: _range_words(schema),
        "maximum": lambda: _range_words(schema),
    }.get(str(kind))
    if allowed:
        return doc.error(path, f"allowed: {allowed()}", value=value)
    return doc.error(path, error.message)


def _type_words(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"a list of {_type_words(schema.get('items', {}))}"
    if kind in ("integer", "number"):
        return _range_words(schema)
    return {"string": "a string", "boolean": "true or false", "object": "a mapping"}.get(
        str(kind), str(kind)
    )


def _range_words(schema: dict[str, Any]) -> str:
    what = "an integer" if schema.get("type") == "integer" else "a number"
    low, high, unit = schema.get("minimum"), schema.get("maximum"), schema.get("unit")
    if low is not None and high is not None:
        what += f" from {low} to {high}"
    elif low is not None:
        what += f" of at least {low}"
    elif high is not None:
        what += f" of at most {high}"
    return what + (f" ({unit})" if unit else "")


def _check_formats(
    schema: dict[str, Any], value: Any, doc: Document, at: tuple[PathKey, ...]
) -> None:
    """The formats that the engine's parameter tables name: file, output, mac, ip."""
    kind = schema.get("format")
    if kind == "ip" and not _is_ip(value):
        raise doc.error(at, "allowed: an IPv4 or IPv6 address, or a prefix", value=value)
    if kind == "mac" and not _MAC.match(value):
        raise doc.error(at, f"allowed: {_MAC_WORDS}", value=value)
    if kind == "file":
        check_file(doc.resolve(value), doc, at, value)
    if kind == "output":
        doc.check_trusted(at, value, "written to")
    if isinstance(value, dict):
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                _check_formats(inner, value[key], doc, (*at, key))
    if isinstance(value, list):
        for i, item in enumerate(value):
            _check_formats(schema.get("items", {}), item, doc, (*at, i))


def _is_ip(value: Any) -> bool:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return True


def check_file(file: Path, doc: Document, at: tuple[PathKey, ...], given: Any) -> None:
    """It can be read, and has an end. Before it is opened: a pipe would block."""
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise doc.error(at, f"is {kind}; allowed: a file: {file}", value=str(given))
        with file.open("rb"):
            pass
    except OSError as error:
        raise doc.error(
            at, f"{(error.strerror or 'cannot be read').lower()}: {file}", value=str(given)
        ) from None


def check_text(file: Path, doc: Document, at: tuple[PathKey, ...], given: Any) -> None:
    """It can be read as a whole."""
    check_file(file, doc, at, given)
    if (size := file.stat().st_size) > TEXT_MOST:
        raise doc.error(at, f"has {size} bytes; allowed: {TEXT_MOST}: {file}", value=str(given))


def with_absolute_files(schema: dict[str, Any], value: Any, doc: Document) -> Any:
    """The parameters as the engine gets them: it has another working directory."""
    read = with_files(schema, value, "file", lambda name: str(doc.resolve(name)))
    return with_files(schema, read, "output", lambda name: str(doc.output(name)))


def with_files(schema: dict[str, Any], value: Any, kind: str, to: Callable[[str], str]) -> Any:
    """The parameters with other names of their files; `kind` as `files_in` has it."""
    if schema.get("format") == kind:
        return to(value)
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        return {key: with_files(inner.get(key, {}), one, kind, to) for key, one in value.items()}
    if isinstance(value, list):
        return [with_files(schema.get("items", {}), item, kind, to) for item in value]
    return value


def files_in(schema: dict[str, Any], value: Any, kind: str = "file") -> list[str]:
    """The files that parameters name, as the user wrote them. `kind` "output": those that are
    written to, and sockets."""
    if schema.get("format") == kind:
        return [str(value)]
    names: list[str] = []
    if isinstance(value, dict):
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                names += files_in(inner, value[key], kind)
    if isinstance(value, list):
        for item in value:
            names += files_in(schema.get("items", {}), item, kind)
    return names
