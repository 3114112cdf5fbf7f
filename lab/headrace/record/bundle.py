# SPDX-License-Identifier: Apache-2.0
"""The run bundle: one directory that holds a run and can be replayed, compared, queried.

    spec.yaml           as given (further input files beside it, in inputs/)
    resolved.json       as resolved: every default written out
    environment.json    the machine and the software
    calibration.json    what memory and rings cost there, where that was measured before
    trials.parquet      record.Trial, one row per trial, chain and direction
    results.parquet     record.Result
    samples/            collectors' own files
    claims.json         record.JudgedClaims, of a study with claims
    report.html
    status.json         running | complete | partial, and why

While a run goes on, rows are appended to trials.jsonl and results.jsonl one by one; finish()
turns them into Parquet. A reader takes whichever is there, so that a run that was killed keeps
every trial that had ended.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ValidationError

from headrace.record.claim import JudgedClaim, JudgedClaims
from headrace.record.environment import Environment
from headrace.record.frozen import Record
from headrace.record.own import BundleError, text
from headrace.record.rows import Result, Trial
from headrace.record.tables import (
    BundleUnwritable,
    from_journal,
    from_parquet,
    query,
    to_parquet,
)
from headrace.spec import document
from headrace.spec.calibration import Calibration
from headrace.spec.invalid import sentence

__all__ = [
    "CALIBRATION_FILE",
    "CLAIMS_FILE",
    "Bundle",
    "BundleError",
    "BundleUnwritable",
    "BundleWriter",
    "Status",
    "now",
    "query",
    "write_whole",
]

_STATUS_BYTES = 4096  # a block: room for why the run ended
CLAIMS_FILE = "claims.json"
CALIBRATION_FILE = "calibration.json"
FORMAT = 1  # raised when a reader of the older form could misread the newer


class Status(Record):
    format: int = FORMAT
    state: Literal["running", "complete", "partial"]
    reason: str | None = None
    started_at: str
    finished_at: str | None = None
    command: tuple[str, ...] = ()
    headrace: str | None = None

    @property
    def unfinished(self) -> str | None:
        """A sentence that says so, of a run that did not end by itself; None of one that did."""
        if self.state == "complete":
            return None
        what = "is still running or was killed" if self.state == "running" else "is partial"
        return f"This run {what}{f': {self.reason}' if self.reason else ''}."


R = TypeVar("R", bound=BaseModel)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _ExistsAlready(BundleError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists already; a run needs a directory of its own")


def check_new(path: Path) -> None:
    """What a bundle at this path would be refused for."""
    if path.exists():
        raise _ExistsAlready(path)
    there = next(one for one in path.absolute().parents if one.exists())
    if not there.is_dir():
        raise BundleError(f"{path}: cannot be made: {there} is not a directory")
    try:
        Path(tempfile.mkdtemp(prefix=".headrace-", dir=there)).rmdir()
    except OSError as error:
        why = f"{there} takes no directories: {error.strerror}"
        raise BundleError(f"{path}: cannot be made: {why}") from None


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as f:
            f.write(text)
        temporary.replace(path)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise BundleUnwritable(path, e.strerror) from None


def _write_over(path: Path, text: str) -> None:
    """Writes into the blocks that the file has already; spaces behind the text do not matter in
    JSON."""
    try:
        with path.open("r+", encoding="utf-8") as f:
            f.write(text)
    except OSError as e:
        raise BundleUnwritable(path, e.strerror) from None


class _Journal:
    """An append-only file of JSON lines; each is the kernel's before append() returns.

    So it outlives the lab, however that ends. It is not synced: waiting for a busy disk
    between trials would stretch a run by more than a power cut is worth.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")  # held open for the run

    def append(self, row: BaseModel) -> None:
        try:
            self._file.write(row.model_dump_json() + "\n")
            self._file.flush()
        except OSError as e:
            raise BundleUnwritable(self.path, e.strerror) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a row that did not fit, which append() has said
            self._file.close()


class BundleWriter:
    """Used as a context: leaving it finishes the bundle, as partial after an exception."""

    def __init__(self, path: Path, *, command: Sequence[str] = (), version: str | None = None):
        try:
            path.mkdir(parents=True)
            (path / "samples").mkdir()
        except FileExistsError:
            raise _ExistsAlready(path) from None
        except OSError as e:
            raise BundleError(f"{path}: cannot be made: {e.strerror}") from None
        self.path = path
        self._status = Status(
            state="running", started_at=now(), command=tuple(command), headrace=version
        )
        self._put_status()
        self._trials = _Journal(path / "trials.jsonl")
        self._results = _Journal(path / "results.jsonl")

    @classmethod
    def beside(cls, path: Path, *, command: Sequence[str] = (), version: str | None = None) -> Self:
        """Takes `path`, or `path`-2, -3, ... where runs that began in the same second are."""
        for number in itertools.count(1):
            named = path if number == 1 else path.with_name(f"{path.name}-{number}")
            with contextlib.suppress(_ExistsAlready):
                return cls(named, command=command, version=version)
        raise AssertionError("numbers do not end")

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._status.state != "running":
            return
        if e is None:
            self.finish()
        elif isinstance(e, KeyboardInterrupt):
            self.finish("partial", "interrupted")
        elif isinstance(e, SystemExit | BrokenPipeError):
            self.finish("partial", "whoever read its output has closed it")
        else:
            self.finish("partial", str(e) or type(e).__name__)

    def spec(self, given: str, resolved: dict[str, Any]) -> None:
        """`given` is the text as the user wrote it, comments and all; `resolved`: a `Resolved`."""
        write_whole(self.path / "spec.yaml", given)
        write_whole(self.path / "resolved.json", json.dumps(resolved, indent=2) + "\n")

    def input(self, name: str, source: Path) -> Path:
        """Copy a file that the spec names (rules, routes, pcap), so that a replay has it."""
        target = self.path / "inputs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source, target)
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise
            target.unlink(missing_ok=True)
            raise BundleUnwritable(target, e.strerror) from None
        return target

    def environment(self, environment: Environment) -> None:
        write_whole(self.path / "environment.json", environment.model_dump_json(indent=2) + "\n")

    def calibration(self, calibration: Calibration) -> None:
        text = calibration.model_dump_json(indent=1, by_alias=True)
        write_whole(self.path / CALIBRATION_FILE, text + "\n")

    def trial(self, trial: Trial) -> None:
        self._trials.append(trial)

    def result(self, result: Result) -> None:
        self._results.append(result)

    def sample(self, name: str, text: str) -> Path:
        target = self.path / "samples" / name
        write_whole(target, text)
        return target

    def finish(
        self, state: Literal["complete", "partial"] = "complete", reason: str | None = None
    ) -> None:
        self._trials.close()
        self._results.close()
        try:
            for journal, model in ((self._trials, Trial), (self._results, Result)):
                to_parquet(journal.path, model, journal.path.with_suffix(".parquet"))
                journal.path.unlink()  # only now that the table is whole
        except BundleUnwritable as e:
            with contextlib.suppress(BundleUnwritable):  # then it stays as of a run that died
                self._ended("partial", str(e))
            raise
        self._ended(state, reason)

    def _ended(self, state: Literal["complete", "partial"], reason: str | None) -> None:
        self._status = self._status.model_copy(
            update={"state": state, "reason": reason, "finished_at": now()}
        )
        self._put_status()

    def _put_status(self) -> None:
        """Padded, so that on a disk that is full by then it can be written over in place: what
        ended the run is in there."""
        path = self.path / "status.json"
        text = self._status.model_dump_json(indent=2).ljust(_STATUS_BYTES - 1) + "\n"
        try:
            write_whole(path, text)
        except BundleUnwritable:
            if not path.exists() or len(text.encode()) > path.stat().st_size:
                raise
            _write_over(path, text)


class Bundle:
    """A bundle to read: finished, partial, or of a run that died."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tables: dict[Path, tuple[tuple[int, ...], list[Any]]] = {}
        if not path.is_dir():
            what = "is not a directory" if path.exists() else "does not exist"
            raise BundleError(f"{path}: {what}; a bundle is the directory that `headrace run` made")
        status = self._text("status.json")
        if status is None:
            raise BundleError(f"{path}: has no status.json; not a bundle of `headrace run`")
        self.status = self._parse("status.json", status, Status)
        if self.status.format > FORMAT:
            raise BundleError(
                f"{path}/status.json: format: {self.status.format} is newer than this headrace "
                f"reads (up to {FORMAT})"
            )

    @property
    def complete(self) -> bool:
        return self.status.state == "complete"

    @property
    def spec_given(self) -> str | None:
        return self._text("spec.yaml")

    @property
    def spec_data(self) -> Any:
        """What the given text says; None of a bundle without one."""
        given = self.spec_given
        return None if given is None else document.parse(given, self.path / "spec.yaml").data

    @property
    def spec_resolved(self) -> dict[str, Any] | None:
        given = self._text("resolved.json")
        if given is None:
            return None
        place = f"{self.path}/resolved.json"
        try:
            resolved = json.loads(given)
        except json.JSONDecodeError as e:
            raise BundleError(f"{place}:{e.lineno}: {e.msg}") from None
        except RecursionError:
            raise BundleError(f"{place}: is nested too deeply") from None
        except ValueError:
            raise BundleError(f"{place}: has a number with too many digits") from None
        if not isinstance(resolved, dict):
            raise BundleError(f"{place}: must be an object")
        return resolved

    @property
    def environment(self) -> Environment | None:
        told = self._text("environment.json")
        return None if told is None else self._parse("environment.json", told, Environment)

    @property
    def claims(self) -> tuple[JudgedClaim, ...]:
        """None are there while the study is still measured."""
        told = self._text(CLAIMS_FILE)
        return () if told is None else self._parse(CLAIMS_FILE, told, JudgedClaims).root

    def check_whole(self) -> None:
        """That nothing is missing of what a run has written by the time that it measures: what is
        left would be shown as if it were all."""
        if not self.trials() and not self.results():
            return
        for name in ("spec.yaml", "resolved.json", "environment.json"):
            if (told := self._text(name)) is None:
                raise self._missing(name)
            if not told.strip():
                raise self._missing(name, "empty")

    @property
    def without_results(self) -> str | None:
        """Says so in a line: an interrupted run may have none, and `plan` and `profile` keep what
        they measured as trials."""
        if self.results():
            return None
        own = f"it is of `headrace {self.status.command[1]}`" if self.status.command[1:] else ""
        why = self.status.unfinished or own
        trials = len({one.trial for one in self.trials()})
        holds = f"it holds {trials} {'trial' if trials == 1 else 'trials'}"
        return f"{self.path}: has no results, {holds}{f': {why}' if why else ''}"

    def check_results(self) -> None:
        """That there is something to compare."""
        if (lacking := self.without_results) is not None:
            raise BundleError(lacking)

    def _missing(self, name: str, what: str = "missing") -> BundleError:
        return BundleError(f"{self.path}/{name}: is {what}; allowed: a bundle with all its files")

    def trials(self) -> list[Trial]:
        return self._rows("trials", Trial)

    def results(self) -> list[Result]:
        return self._rows("results", Result)

    def _text(self, name: str) -> str | None:
        return text(self.path, name)

    def _parse(self, name: str, text: str, model: type[R]) -> R:
        try:
            return model.model_validate_json(text)
        except ValidationError as e:
            raise BundleError(f"{self.path}/{name}: {sentence(e)}") from None

    def _rows(self, stem: str, model: type[R]) -> list[R]:
        journal, table = self.path / f"{stem}.jsonl", self.path / f"{stem}.parquet"
        if os.path.lexists(table):
            return list(self._whole(table, model))
        if self.status.state != "running" and not os.path.lexists(journal):
            raise self._missing(table.name)
        return from_journal(journal, model)

    def _whole(self, table: Path, model: type[R]) -> list[R]:
        """Read once while it is the same file: a report asks for its rows a dozen times."""
        state = table.lstat()
        same = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
        known = self._tables.get(table)
        if known is None or known[0] != same:
            known = self._tables[table] = same, from_parquet(table, model)
        return known[1]
