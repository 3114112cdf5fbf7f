# SPDX-License-Identifier: Apache-2.0
"""YAML documents whose values know their line, so that an error can name it."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from headrace.errors import BadInput, bad_value

PathKey = str | int

# Specs are written by hand. A parser that keeps the line of each value takes minutes for more.
_SIZE_MAX = 4 << 20
# Keys of one mapping; `<<` of `<<` could double them without end.
_KEYS_MAX = 100_000
_MERGE = "tag:yaml.org,2002:merge"  # `<<`


class _Strict(yaml.constructor.SafeConstructor):
    """Refuses duplicate keys, of which YAML would silently keep the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.merged: list[tuple[yaml.MappingNode, list[tuple[yaml.Node, yaml.Node]]]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        written = list(node.value)
        super().flatten_mapping(node)
        if len(node.value) > _KEYS_MAX:
            problem = f"{len(node.value)} keys with `<<`; allowed: {_KEYS_MAX}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        if any(key_node.tag == _MERGE for key_node, _ in written):
            self.merged.append((node, written))


class _Loader(Composer, Reader, Scanner, Parser, _Strict, Resolver):
    """PyYAML's own parser."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Strict.__init__(self)
        Resolver.__init__(self)


class _FastLoader(Composer, CParser, _Strict, Resolver):
    """libyaml's parser, five times as fast; not its composer, which recurses without a limit."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        _Strict.__init__(self)
        Resolver.__init__(self)


@dataclass(frozen=True)
class Document:
    """A parsed file: its data, and the node tree that remembers the lines."""

    file: Path
    data: Any
    root: yaml.Node | None
    # Where the copy of each file that the spec names lies, by that name.
    inputs: Mapping[str, Path] = field(default_factory=dict)
    bundled: bool = False  # in a bundle: it names no files but those copies
    trusted: bool = True  # it may name what is to be run or written to
    group: str | None = None  # whose part of the study is laid over the rest of it
    swept: tuple[str, ...] = ()  # paths that the group's sweep sets
    together: str | None = None  # of a folder's files: what they come to, as one text
    # Of a folder: the file that each of its groups and claims is in, by ("groups", name).
    parts: Mapping[tuple[str, str], Document] = field(default_factory=dict)
    changed: str | None = None  # its text, where the command line has changed what it says

    @property
    def place(self) -> Path:
        """What a user has: of a folder, that; there is no file with all of it."""
        return self.file if self.together is None else self.file.parent

    def text(self) -> str:
        """The spec as the user wrote it, comments and all."""
        return self.changed or self.together or self.file.read_text(encoding="utf-8")

    def resolve(self, given: str | Path) -> Path:
        """Paths in a spec are relative to the spec's own file."""
        copy = self.inputs.get(str(given))
        if copy is None and self.bundled:
            raise BadInput(f"{self.file}: names {given}, of which the bundle holds no copy")
        return copy if copy is not None else (self.file.parent / given).resolve()

    def with_own(self, folder: Path) -> Document:
        """The same with files that this run has written there itself: no spec of a stranger's names
        them, and a bundle has no copies."""
        own = {str(file): file for file in folder.iterdir()}
        return replace(self, inputs={**self.inputs, **own})

    def output(self, given: str | Path) -> Path:
        """A file or socket to be written to; a link there is the engine's to refuse."""
        return self.file.parent.resolve() / given

    def program(self, path: tuple[PathKey, ...], given: str | Path) -> Path:
        """A file to be executed. None is ever copied into a bundle."""
        self.check_trusted(path, given)
        return (self.file.parent / given).resolve()

    def check_trusted(
        self, path: tuple[PathKey, ...], given: str | Path, what: str = "run"
    ) -> None:
        """Asked before anything that the spec itself brings is run, or that it names is written."""
        if not self.trusted:
            problem = f"would be {what} as this bundle's spec says; allowed: with --trust"
            raise self.error(path, problem, value=str(given))

    def line(self, path: tuple[PathKey, ...]) -> int | None:
        """The line of the value at `path`, or of its nearest parent that exists."""
        node, line = self.root, None
        for key in path:
            if node is None:
                break
            line = node.start_mark.line + 1
            child, key_line = _child(node, key)
            if child is None:
                return line
            node, line = child, key_line
        if node is not None and line is None:
            line = node.start_mark.line + 1
        return line

    def error(self, path: tuple[PathKey, ...], problem: str, **value: Any) -> BadInput:
        """An error at `path` of this file; pass `value=` to show it."""
        own, path = self._own(path)
        path = own._written(path)
        line = own.line(path) if own.together is None else None
        place = f"{own.place}:{line}" if line is not None else str(own.place)
        where = dotted(path)
        return bad_value(f"{place}: {where}" if where else place, problem=problem, **value)

    def _own(self, path: tuple[PathKey, ...]) -> tuple[Document, tuple[PathKey, ...]]:
        """Finds, of a folder, the file in which a path is written, and the path there."""
        kind, name = ("groups", self.group) if self.group is not None else (*path, "", "")[:2]
        own = self.parts.get((str(kind), str(name)))
        if own is None or kind != "groups":
            return own or self, path
        swept = (own.data["groups"][name] or {}).get("sweep") or {}
        group = replace(own, group=str(name), swept=tuple(swept))
        if self.group is not None:
            return group, path
        if path[2:3] == ("spec",):
            return group, path[3:]
        return (group, path[2:]) if path[2:3] == ("sweep",) else (own, path)

    def _written(self, path: tuple[PathKey, ...]) -> tuple[PathKey, ...]:
        """Where the value stands: in its group, or in what all groups have in common."""
        if self.group is None:
            return path
        for key in self.swept:
            if (text := dotted(path)) == key or text.startswith((f"{key}.", f"{key}[")):
                return ("groups", self.group, "sweep", key)
        part = () if path[:1] == ("sweep",) else ("spec",)
        inside = ("groups", self.group, *part, *path)
        deeper = self._depth(inside) - (len(inside) - len(path)) > self._depth(path)
        return inside if deeper or self._depth(inside) == len(inside) else path

    def _depth(self, path: tuple[PathKey, ...]) -> int:
        """How many of a path's keys the file has."""
        node = self.root
        for depth, key in enumerate(path):
            child = _child(node, key)[0] if node is not None else None
            if child is None:
                return depth
            node = child
        return len(path)


def _child(node: yaml.Node, key: PathKey) -> tuple[yaml.Node | None, int | None]:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == str(key):
                return value_node, key_node.start_mark.line + 1
        for merged in _merged(node):
            if (child := _child(merged, key))[0] is not None:
                return child
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child = node.value[key]
        return child, child.start_mark.line + 1
    return None, None


def _merged(node: yaml.MappingNode) -> Iterator[yaml.Node]:
    """Mappings that it has taken the keys of, by `<<`; the first that has a key counts."""
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            several = isinstance(value_node, yaml.SequenceNode)
            yield from value_node.value if several else (value_node,)


def dotted(path: tuple[PathKey, ...]) -> str:
    """`deployment.execution[1]`"""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else (f".{key}" if text else str(key))
    return text


def load(file: Path, inputs: Mapping[str, Path] | None = None) -> Document:
    """Read a YAML file; every way in which that can fail is bad input."""
    try:
        # Before it is opened: a pipe would block, and a device may have no end.
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise BadInput(f"{file}: not a regular file; allowed: a YAML file")
        if stat.S_ISREG(status.st_mode) and status.st_size > _SIZE_MAX:
            raise BadInput(
                f"{file}: {status.st_size} bytes; allowed: a YAML file of at most {_SIZE_MAX} bytes"
            )
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(f"{file}: no such file") from None
    except IsADirectoryError:
        raise BadInput(f"{file}: is a directory; allowed: a YAML file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    return parse(text, file, inputs)


def _read(text: str) -> tuple[yaml.Node | None, Any]:
    """What libyaml refuses is told in PyYAML's words, which say what was expected there."""
    try:
        return _whole(_FastLoader(text))
    except yaml.YAMLError:
        return _whole(_Loader(text))


def _whole(loader: _FastLoader | _Loader) -> tuple[yaml.Node | None, Any]:
    """The nodes as they are written, and the data that they come to."""
    root = loader.get_single_node()
    data = None if root is None else loader.construct_document(root)
    for node, written in loader.merged:
        node.value = written
    return root, data


def parse(text: str, file: Path, inputs: Mapping[str, Path] | None = None) -> Document:
    try:
        root, data = _read(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        raise BadInput(f"{place}: not valid YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise BadInput(f"{file}: nested too deeply for a document of this kind") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise BadInput(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    return Document(file, data, root, inputs or {})
