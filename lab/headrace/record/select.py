# SPDX-License-Identifier: Apache-2.0
"""One SELECT over a bundle's rows, of a query that anybody may have written: it sees the tables
`trials` and `results` in memory, and `calibration`, which has one row or none; and reaches no file,
network, extension or setting."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from headrace.record.bundle import CALIBRATION_FILE
from headrace.record.own import text
from headrace.record.tables import MODELS, bundle_table, column_types, held_path, quoted
from headrace.spec.calibration import Calibration

SECONDS_MAX = 10.0
_FIRST = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "memory_limit": "1GB",
    "threads": 1,
}
_LAST = ("enable_external_access = false", "lock_configuration = true")


class Ask(Protocol):
    """SQL -> the first rows. `despite`: as if of measured rows those alone were there that an audit
    doubts for nothing, or by these checks alone. `only`: as if no other repetitions had been
    measured."""

    def __call__(
        self,
        sql: str,
        *,
        despite: Collection[str] | None = None,
        only: Collection[int] | None = None,
    ) -> list[tuple[Any, ...]]: ...


class QueryError(Exception):
    """What is wrong with a query, in one line."""


@contextlib.contextmanager
def rows_of(bundle: Path | None) -> Iterator[Ask]:
    """None: the tables without rows."""
    import duckdb

    with duckdb.connect(config=_FIRST) as db:
        for name, model in MODELS.items():
            _load(db, name, model, bundle)
        _load_calibration(db, bundle)
        for setting in _LAST:
            db.execute(f"SET {setting}")

        def ask(
            sql: str,
            *,
            despite: Collection[str] | None = None,
            only: Collection[int] | None = None,
        ) -> list[tuple[Any, ...]]:
            if despite is None and only is None:
                return _asked(db, sql)
            return _asked_of(db, sql, _trusted(despite), _measured_in(only))

        yield ask


def _trusted(despite: Collection[str] | None) -> str:
    """Predicted and published rows have no audit."""
    if despite is None:
        return "true"
    checks = ", ".join(f"'{check}'" for check in sorted(despite))
    failed = "list_filter(audit.findings, lambda f: NOT f.ok)"
    others = f"list_filter({failed}, lambda f: f.check NOT IN ({checks}))" if checks else failed
    doubted = "audit.verdict IN ('suspect', 'generator-bound')"
    return (
        "ground <> 'measured' OR audit.verdict = 'ok' "
        f"OR ({doubted} AND len({failed}) > 0 AND len({others}) = 0)"
    )


def _measured_in(only: Collection[int] | None) -> str:
    """Predicted and published rows are of no repetition that could be left out."""
    if only is None:
        return "true"
    numbers = ", ".join(f"{number:d}" for number in sorted(only))
    return f"ground <> 'measured' OR repetition IN ({numbers})"


def _load_calibration(db: Any, bundle: Path | None) -> None:
    """A column has its field's name, where the file has `from` and `to`."""
    columns = ", ".join(f"{name} {kind}" for name, kind in column_types(Calibration).items())
    db.execute(f"CREATE TABLE calibration ({columns})")
    told = None if bundle is None else text(bundle, CALIBRATION_FILE)
    if told is None:
        return
    whole = Calibration.model_validate_json(told)
    with tempfile.TemporaryFile() as plain:
        plain.write(whole.model_dump_json().encode())
        plain.flush()
        types = ", ".join(f"'{n}': '{t}'" for n, t in column_types(Calibration).items())
        db.execute(
            f"INSERT INTO calibration SELECT * FROM read_json('{held_path(plain)}', "
            f"format='newline_delimited', columns={{{types}}})"
        )


def _load(db: Any, name: str, model: type[BaseModel], bundle: Path | None) -> None:
    types = column_types(model)
    if bundle is None:
        db.execute(f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in types.items())})")
        return
    with bundle_table(bundle, name) as file:
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{quoted(file)}')")
    there = {row[0] for row in db.execute(f"DESCRIBE {name}").fetchall()}
    for column in types.keys() - there:  # of a bundle that is older than the column
        db.execute(f"ALTER TABLE {name} ADD COLUMN {column} {types[column]}")


def _asked_of(db: Any, sql: str, *kept: str) -> list[tuple[Any, ...]]:
    """The rows are there again afterwards."""
    conditions = " AND ".join(f"({one})" for one in kept)
    db.execute("BEGIN TRANSACTION")
    try:
        for name in MODELS:
            db.execute(f"DELETE FROM {name} WHERE ({conditions}) IS NOT TRUE")
        return _asked(db, sql)
    finally:
        db.execute("ROLLBACK")


def _asked(db: Any, sql: str) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise QueryError("is not one SELECT")
        late = threading.Timer(SECONDS_MAX, db.interrupt)
        late.start()
        try:
            cursor = db.execute(statements[0])
            if len(cursor.description) != 1:
                raise QueryError(f"gives {len(cursor.description)} columns; allowed: one value")
            rows: list[tuple[Any, ...]] = cursor.fetchmany(2)
            return rows
        finally:
            late.cancel()
    except duckdb.InterruptException:
        raise QueryError(f"takes more than {SECONDS_MAX:g} s") from None
    except duckdb.Error as error:
        raise QueryError(str(error).splitlines()[0]) from None
