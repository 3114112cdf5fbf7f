# SPDX-License-Identifier: Apache-2.0
"""The catalogue of third-party VNFs: what each folder under vnfs/ says of itself."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, RootModel, ValidationError, model_validator

from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.graph.knowledge import Category
from headrace.host.programs import LIBRARIES, find_engine, shipped
from headrace.spec import document
from headrace.spec.appliance import Address, Capabilities, Device, Port, Side
from headrace.spec.base import NAME_PATTERN, Spec
from headrace.spec.invalid import explain

Value = str | int | float | bool
VnfKind = Literal["routed", "proxy", "leaf", "traffic"]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class Parameter(Spec):
    """A parameter of a VNF: reaches its entry point as the environment variable HR_P_NAME."""

    type: Literal["string", "integer", "number", "boolean"]
    default: Value
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    choices: tuple[Value, ...] | None = None

    @model_validator(mode="after")
    def _default_is_valid(self) -> Parameter:
        problem = self.problem(self.default)
        if problem:
            raise ValueError(f"default {self.default!r}: {problem}")
        return self

    def problem(self, value: Any) -> str | None:
        """What is allowed, when `value` is not."""
        boolean = isinstance(value, bool)
        if boolean != (self.type == "boolean") or not isinstance(value, _TYPES[self.type]):
            return f"allowed: a value of type {self.type}"
        if self.choices is not None and value not in self.choices:
            return f"allowed: {', '.join(map(str, self.choices))}"
        if self.pattern is not None and not re.fullmatch(self.pattern, str(value)):
            return f"allowed: text matching {self.pattern}"
        if isinstance(value, int | float) and not boolean:
            low, high = self.minimum, self.maximum
            if (low is not None and value < low) or (high is not None and value > high):
                return f"allowed: {'-∞' if low is None else low} to {'∞' if high is None else high}"
        return None


class CacheCounters(Spec):
    """A VNF that keeps what it fetched has parameters that bound it, and counters that tell."""

    memory_mb: str
    object_kb: str | None = None  # the largest that it keeps
    requests: str
    hits: str


class VnfDefinition(Spec):
    """vnfs/NAME/vnf.yaml.

    kind `routed` forwards IP between its interfaces `up` (clients' side) and `down`; `proxy`
    ends connections to its service address and makes its own to the next; `leaf` is fed a copy
    on `mirror`; `traffic` stands at the ends of a chain.
    """

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    title: str
    category: Category
    kind: VnfKind
    pair: bool = False  # two containers, `near` the clients and `far`, with a network between
    serves: Literal["http", "dns"] = "http"  # what a proxy answers
    hides_source: bool = False  # what is behind it sees its address, not the clients'
    scale_out: bool = False  # several instances may share the load
    capabilities: Capabilities = ()
    # Which a parameter's value asks for besides: parameter -> value -> capabilities.
    needs: dict[str, dict[str, Capabilities]] = Field(default_factory=dict)
    devices: tuple[str, ...] = ()
    whole_frames: bool = False  # reads frames itself: no offloads on its networks
    # Who forwards what a `routed` VNF gets: the kernel; a process that the kernel's forwarding
    # hands it to and takes it back from; or a process that reads the interfaces itself.
    forwards: Literal["kernel", "process", "itself"] = "kernel"
    engine: bool = False  # its image holds headrace's own engine
    ports: dict[Port, Device] = Field(default_factory=dict)  # what it calls its interfaces
    addresses: dict[Side, Address] = Field(default_factory=dict)
    health_timeout_s: Annotated[float, Field(gt=0, le=600)] = 20
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    counters: dict[str, str] = Field(default_factory=dict)
    cache: CacheCounters | None = None

    @model_validator(mode="after")
    def _needs_are_of_parameters(self) -> VnfDefinition:
        for name in self.needs:
            if name not in self.parameters:
                raise ValueError(f"needs: {name!r} is no parameter of this VNF")
        return self

    @model_validator(mode="after")
    def _caches_parameters_and_counters_are_here(self) -> VnfDefinition:
        if self.cache is None:
            return self
        for name in filter(None, (self.cache.memory_mb, self.cache.object_kb)):
            if name not in self.parameters or self.parameters[name].type != "integer":
                raise ValueError(f"cache: {name!r} is no integer parameter of this VNF")
        for name in (self.cache.requests, self.cache.hits):
            if name not in self.counters:
                raise ValueError(f"cache: {name!r} is no counter of this VNF")
        return self

    @property
    def in_kernel(self) -> bool:
        """Whether it is the kernel that forwards for it, and no process of the container's."""
        return self.kind == "routed" and self.forwards == "kernel"

    @property
    def splits(self) -> bool:
        """Whether addresses in front of it are unknown behind it."""
        return self.hides_source or self.kind == "proxy"

    def granted(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Capabilities with these parameters."""
        wanted = list(self.capabilities)
        for name, by_value in self.needs.items():
            value = given.get(name, self.parameters[name].default)
            wanted += by_value.get(_text(value), ())
        return tuple(wanted)

    def environment(self, given: Mapping[str, Any], place: str) -> dict[str, str]:
        """All parameters as the entry point gets them; unknown or wrong ones are bad input."""
        for key in given:
            if key not in self.parameters:
                allowed = ", ".join(self.parameters) or "none"
                raise bad_value(f"{place}.{key}", problem="unknown parameter", allowed=allowed)
        values = {name: given.get(name, p.default) for name, p in self.parameters.items()}
        for name, value in values.items():
            problem = self.parameters[name].problem(value)
            if problem:
                raise bad_value(f"{place}.{name}", value, problem=problem)
        return {f"HR_P_{name.upper()}": _text(value) for name, value in values.items()}


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class DescribedVnf(VnfDefinition):
    """What `headrace vnf describe` prints."""

    image: str


class ListedVnf(Spec):
    name: str
    category: Category
    kind: VnfKind
    title: str
    image: str
    built: bool


class ListedVnfs(RootModel[tuple[ListedVnf, ...]]):
    """What `headrace vnf list` prints."""


class CatalogueEntry:
    """A VNF and the folder that its image is built from."""

    def __init__(self, folder: Path, definition: VnfDefinition) -> None:
        self.folder = folder
        self.definition = definition

    @cached_property
    def digest(self) -> str:
        """It changes with everything that the image is made of."""
        digest = hashlib.sha256()
        for file in sorted(self.folder.rglob("*")):
            if file.is_file() and file.name != "vnf.yaml":
                digest.update(str(file.relative_to(self.folder)).encode() + b"\0")
                digest.update(file.read_bytes() + b"\0")
        if self.definition.engine and (engine := _engine()) is not None:
            digest.update(engine.read_bytes())
        return digest.hexdigest()[:16]

    def fill(self, folder: Path) -> None:
        """All that the image is built from, into a folder for the build."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        if self.definition.engine:
            shutil.copy2(find_engine(), folder / "headrace-engine")
            (folder / LIBRARIES.name).mkdir()
            if LIBRARIES.is_dir():
                shutil.copytree(LIBRARIES, folder / LIBRARIES.name, dirs_exist_ok=True)

    @property
    def image(self) -> str:
        return f"localhost/headrace/{self.definition.name}:{self.digest}"


def _engine() -> Path | None:
    """A VNF can be listed and described before the engine that it holds is built."""
    try:
        return find_engine()
    except HeadraceError:
        return None


def catalogue_folder() -> Path:
    """The folder that HEADRACE_VNFS names, or headrace's own."""
    given = os.environ.get("HEADRACE_VNFS")
    return Path(given) if given else shipped("vnfs")


def catalogue() -> dict[str, CatalogueEntry]:
    """Every VNF there is, by name."""
    folder = catalogue_folder()
    entries = [read(file) for file in sorted(folder.glob("*/vnf.yaml"))]
    return {entry.definition.name: entry for entry in entries}


def find(name: str) -> CatalogueEntry:
    entries = catalogue()
    if name not in entries:
        raise bad_value("VNF", name, allowed=", ".join(entries))
    return entries[name]


def read(file: Path) -> CatalogueEntry:
    doc = document.load(file)
    try:
        definition = VnfDefinition.model_validate(doc.data)
    except ValidationError as error:
        raise explain(doc, error, VnfDefinition) from None
    if definition.name != file.parent.name:
        raise doc.error(("name",), f"the folder is {file.parent.name!r}", value=definition.name)
    for needed in ("Containerfile", "start", "health", "counters"):
        if not (file.parent / needed).is_file():
            raise BadInput(f"{file.parent}: {needed} is missing")
    return CatalogueEntry(file.parent, definition)
