# SPDX-License-Identifier: Apache-2.0
"""Rows of a bundle on disk: JSON lines while a run goes on, Parquet afterwards.

The columns are the records' fields; docs/reference/tables.md lists them. A Parquet file names the
version of its columns in its metadata: those that only lack newer columns have the same version.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from headrace.errors import HeadraceError
from headrace.record.own import TEXT_MOST, BundleError, opened
from headrace.record.rows import Result, Trial
from headrace.spec.invalid import sentence

R = TypeVar("R", bound=BaseModel)
MODELS: dict[str, type[BaseModel]] = {"trials": Trial, "results": Result}
VERSION = 1  # raised when a column goes, or changes its type or meaning; not by a new one
ROWS_MOST = 1_000_000  # of a table that is asked with others
TEXT_OF_ROWS_MOST = 1 << 29  # bytes of a table's rows that are read
_VERSION_KEY = "headrace_tables"  # absent in the first bundles, whose columns are version 1's


class BundleUnwritable(HeadraceError):
    """The file, and what the system says: mostly that no space is left."""

    def __init__(self, path: Path, why: str | None) -> None:
        super().__init__(f"{path}: cannot be written: {(why or 'unknown error').lower()}")


def from_journal(path: Path, model: type[R]) -> list[R]:
    rows: list[R] = []
    file = opened(path.parent, path.name)
    if file is None:
        return rows
    with file:
        for number, line in enumerate(iter(lambda: file.readline(TEXT_MOST), b""), 1):
            if len(line) == TEXT_MOST:
                raise BundleError(f"{path}:{number}: is longer than {TEXT_MOST} bytes")
            if not line.endswith(b"\n"):
                break  # torn by a crash: this trial never ended
            try:
                rows.append(model.model_validate_json(line))
            except ValidationError as e:
                raise BundleError(f"{path}:{number}: {sentence(e)}") from None
    return rows


def _own_tables() -> Any:
    """Connects to this process' own instance, for what asks no query of anybody's: an instance
    takes as long to begin as a bundle's table to be read. A fork may have been made while one was
    used, so its child has another."""
    return _instance(os.getpid()).cursor()


@cache
def _instance(pid: int) -> Any:
    import duckdb

    instance = duckdb.connect(config={"threads": 1})
    with contextlib.suppress(duckdb.Error):  # versions without this cache
        # A descriptor's path names one file now, another one later.
        instance.execute("SET enable_external_file_cache = false")
    atexit.register(_instance.cache_clear)  # while the library can still end it
    return instance


def from_parquet(path: Path, model: type[R]) -> list[R]:
    import duckdb  # heavy; most commands read no tables

    file = opened(path.parent, path.name)
    if file is None:
        raise BundleError(f"{path}: is not there")
    with file:
        held = held_path(file)
        try:
            with _own_tables() as db:
                _check_version(db, held, path)
                cursor = db.execute("SELECT * FROM read_parquet(?)", [str(held)])
                names = [column[0] for column in cursor.description or ()]
                rows = _bounded(cursor, path)
        except duckdb.Error as e:
            why = str(e).splitlines()[0].replace(str(held), path.name)
            raise BundleError(f"{path}: is not readable as Parquet: {why}") from None
    try:
        return [model.model_validate(dict(zip(names, row, strict=True))) for row in rows]
    except ValidationError as e:
        raise BundleError(f"{path}: {sentence(e)}") from None


def _bounded(cursor: Any, path: Path) -> list[tuple[Any, ...]]:
    """All rows. What is the same in many takes no room in a file, and here it does in each."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    while row := cursor.fetchone():  # one by one: each may be as long as all may
        rows.append(row)
        size += len(str(row))
        if size > TEXT_OF_ROWS_MOST:
            most = f"{TEXT_OF_ROWS_MOST} bytes of rows, as text"
            raise BundleError(f"{path}: is too long; allowed: {most}")
    return rows


def held_path(file: BinaryIO) -> Path:
    """Names the very file that was opened, whatever has come to its place since."""
    return Path(f"/proc/self/fd/{file.fileno()}")


def _check_version(db: Any, held: Path, path: Path) -> None:
    written = db.execute(
        "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?::BLOB", [str(held), _VERSION_KEY]
    ).fetchone()
    if written is not None and int(written[0]) > VERSION:
        raise BundleError(
            f"{path}: its columns are of version {int(written[0])}, which is newer than this "
            f"headrace reads (up to {VERSION})"
        )


def to_parquet(journal: Path, model: type[BaseModel], table: Path) -> None:
    """A torn last line, of a run that was killed, is left out."""
    rows = from_journal(journal, model)
    temporary = table.with_name(f".{table.name}.tmp")
    try:
        with _writing(table), tempfile.TemporaryFile(dir=table.parent) as whole:
            _write_parquet(rows, model, whole, temporary)
            temporary.replace(table)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(table: Path) -> Iterator[None]:
    import duckdb

    try:
        yield
    except OSError as e:
        raise BundleUnwritable(table, e.strerror) from None
    except duckdb.IOException as e:
        raise BundleUnwritable(table, _reason(str(e))) from None


def _write_parquet(
    rows: Iterable[BaseModel], model: type[BaseModel], whole: BinaryIO, table: Path
) -> None:
    """`whole` has the rows meanwhile: a file without a name goes with a process that is killed."""
    columns = ", ".join(f"'{n}': '{t}'" for n, t in column_types(model).items())
    whole.writelines(row.model_dump_json().encode() + b"\n" for row in rows)
    whole.flush()
    with _own_tables() as db:
        db.execute(
            f"COPY (SELECT * FROM read_json('{held_path(whole)}', format='newline_delimited', "
            f"columns={{{columns}}}, maximum_object_size=67108864)) "
            f"TO '{quoted(table)}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, "
            f"KV_METADATA {{{_VERSION_KEY}: '{VERSION}'}})"
        )


def _reason(text: str) -> str:
    """DuckDB's message, which is an object of JSON where the system gave it a number."""
    number = re.search(r'"errno":"(\d+)"', text)
    return os.strerror(int(number[1])) if number else text.splitlines()[0]


def quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@cache
def column_types(model: type[BaseModel]) -> Mapping[str, str]:
    """DuckDB's type of each field, so that empty and partial bundles have the same columns."""
    return {name: _sql_type(field.annotation) for name, field in model.model_fields.items()}


def leaf_types(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Path and type of each column of values: a.b in a struct, a[] in a list, a{} in a map."""
    for name, field in model.model_fields.items():
        yield from _leaves(field.annotation, prefix + name)


def _leaves(annotation: Any, path: str) -> Iterator[tuple[str, str]]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        yield from _leaves(next(a for a in arguments if a is not NoneType), path)
    elif origin in (tuple, dict):
        mark = "[]" if origin is tuple else "{}"
        yield from _leaves(arguments[origin is dict], path + mark)
    elif hasattr(annotation, "__metadata__"):
        yield from _leaves(arguments[0], path)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from leaf_types(annotation, f"{path}.")
    else:
        yield path, _sql_type(annotation)


_SCALARS = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


def _sql_type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin in (Union, UnionType):
        return _sql_type(next(a for a in arguments if a is not NoneType))
    if origin is Literal:
        return "VARCHAR"
    if origin is tuple:
        return f"{_sql_type(arguments[0])}[]"
    if origin is dict:
        return f"MAP(VARCHAR, {_sql_type(arguments[1])})"
    if hasattr(annotation, "__metadata__"):
        return _sql_type(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = ", ".join(f'"{n}" {t}' for n, t in column_types(annotation).items())
        return f"STRUCT({inner})"
    raise TypeError(f"no column type for {annotation!r}")


def query(
    bundles: Iterable[Path], sql: str, values: Sequence[str] = ()
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run SQL over the views `trials` and `results` of several bundles, killed runs' too.

    Each view has the bundle's directory name in the column `bundle`; `values` stand for `?`.
    """
    import duckdb

    paths = list(bundles)
    with contextlib.ExitStack() as stack, duckdb.connect() as db:
        for stem in MODELS:
            files = [stack.enter_context(bundle_table(path, stem)) for path in paths]
            parts = " UNION ALL BY NAME ".join(
                f"SELECT '{quoted(Path(path.resolve().name))}' AS bundle, * "
                f"FROM read_parquet('{quoted(file)}')"
                for path, file in zip(paths, files, strict=True)
            )
            if not parts:
                raise BundleError("query: no bundle was given")
            try:
                for path, rows in _row_counts(db, paths, files):
                    if rows > ROWS_MOST:
                        what = f"{path / stem}.parquet: {rows} rows"
                        raise BundleError(f"query: {what}; allowed: {ROWS_MOST}")
                db.execute(f"CREATE VIEW {stem} AS {parts}")
            except duckdb.Error as e:
                why = str(e).splitlines()[0]
                for path, file in zip(paths, files, strict=True):
                    why = why.replace(str(file), str(path / f"{stem}.parquet"))
                raise BundleError(f"query: {why}") from None
        try:
            cursor = db.execute(sql, list(values))
            return [c[0] for c in cursor.description or ()], cursor.fetchall()
        except duckdb.Error as e:
            raise BundleError(f"query: {str(e).splitlines()[0]}") from None


def _row_counts(
    db: Any, paths: Sequence[Path], files: Sequence[Path]
) -> Iterator[tuple[Path, int]]:
    """Counts by the files' own account of what is read: a megabyte may have any number of the same
    row."""
    asked = (
        "SELECT file_name, sum(row_group_num_rows) FROM (SELECT DISTINCT file_name, row_group_id, "
        "row_group_num_rows FROM parquet_metadata(?)) GROUP BY file_name"
    )
    counts = dict(db.execute(asked, [[str(file) for file in files]]).fetchall())
    return ((path, counts.get(str(file), 0)) for path, file in zip(paths, files, strict=True))


def gather(bundles: Iterable[Path], folder: Path) -> None:
    """The rows of finished bundles in one trials.parquet and one results.parquet; the column
    `bundle` has the name of the bundle's directory."""
    import duckdb

    paths = list(bundles)
    with duckdb.connect() as db:
        for stem in MODELS:
            target, temporary = folder / f"{stem}.parquet", folder / f".{stem}.parquet.tmp"
            files = ", ".join(f"'{quoted(path / target.name)}'" for path in paths)
            try:
                db.execute(
                    f"COPY (SELECT parse_path(filename)[-2] AS bundle, * EXCLUDE filename FROM "
                    f"read_parquet([{files}], union_by_name=true, filename=true)) "
                    f"TO '{quoted(temporary)}' (FORMAT parquet, COMPRESSION zstd, "
                    f"KV_METADATA {{{_VERSION_KEY}: '{VERSION}'}})"
                )
                temporary.replace(target)
            except (duckdb.IOException, OSError) as error:
                raise BundleUnwritable(target, _reason(str(error))) from None
            finally:
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def bundle_table(bundle: Path, stem: str) -> Iterator[Path]:
    """A bundle's rows as a Parquet file; of a killed run's journal one is made meanwhile."""
    table, journal = bundle / f"{stem}.parquet", bundle / f"{stem}.jsonl"
    if (whole := opened(bundle, table.name)) is not None:
        with whole:
            yield held_path(whole)
        return
    if not os.path.lexists(journal):
        raise BundleError(f"{bundle}: has neither {table.name} nor {journal.name}; not a bundle")
    with tempfile.TemporaryFile() as rows, tempfile.TemporaryFile() as copy:
        read = from_journal(journal, MODELS[stem])
        with _writing(table):
            _write_parquet(read, MODELS[stem], rows, held_path(copy))
        yield held_path(copy)
