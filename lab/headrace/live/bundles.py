# SPDX-License-Identifier: Apache-2.0
"""The bundles of a folder, and their results by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from headrace.record.bundle import Bundle, BundleError, query
from headrace.record.own import opened
from headrace.record.verdict import VERDICTS, Verdict, worst

REPORT = "report.html"

# One row per figure: the repetitions of a result together, as a bundle's report has them: what
# measured nothing is left out where anything did. A word is looked for in all that names a result.
_FIGURES = """
WITH own AS (
    SELECT *, CASE WHEN goal = 'fixed' THEN load_pps END AS load,
           bool_and(audit.verdict = 'invalid') OVER (
               PARTITION BY bundle, chain, workload, direction, execution, goal,
                            CASE WHEN goal = 'fixed' THEN load_pps END) AS all_invalid
    FROM results
    WHERE ground = 'measured'
)
SELECT bundle, chain, workload, direction, execution, goal, load,
       median(throughput_pps), min(throughput_pps), max(throughput_pps),
       median(loss_ratio), median(latency_ns.p99), list(DISTINCT audit.verdict), count(*)
FROM own
WHERE all_invalid OR audit.verdict <> 'invalid'
GROUP BY ALL
HAVING {words}
ORDER BY ALL
"""
_WORD = (
    "contains(lower(concat_ws(' ', bundle, chain, workload, direction, execution, goal, "
    "array_to_string(list(DISTINCT audit.verdict), ' '))), lower(?))"
)


@dataclass(frozen=True)
class Listed:
    """A bundle of the folder."""

    name: str
    started_at: str
    state: str
    has_report: bool
    damage: str = ""  # why its figures cannot be read


@dataclass(frozen=True)
class FigureKey:
    """What is the same figure in another bundle."""

    chain: str
    workload: str
    direction: str
    execution: str
    goal: str
    load_pps: float | None  # of fixed loads only

    @property
    def place(self) -> tuple[str, str, str, str, float | None]:
        """What stands in one picture: all but the execution."""
        return self.chain, self.workload, self.direction, self.goal, self.load_pps


@dataclass(frozen=True)
class FigureRow:
    """A figure's medians over the repetitions."""

    bundle: str
    key: FigureKey
    throughput_pps: float
    low_pps: float
    high_pps: float
    loss_ratio: float
    p99_ns: float | None
    verdict: Verdict
    repetitions: int


class Folder:
    """Read anew each time that it is asked: runs come and go."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            what = "is not a directory" if path.exists() else "does not exist"
            raise BundleError(f"{path}: {what}; allowed: a folder with bundles of `headrace run`")
        self.path = path

    def bundles(self) -> list[Listed]:
        """The newest first. What is no bundle, or one that a newer headrace wrote, is left out, and
        so are links: whoever may write here would choose among all that the reader may read."""
        listed = []
        for path in self.path.iterdir():
            if path.is_symlink() or not (path / "status.json").is_file() or not _utf8(path.name):
                continue
            try:
                status = Bundle(path).status
            except BundleError:
                continue
            report = (path / REPORT).is_file() and not (path / REPORT).is_symlink()
            listed.append(Listed(path.name, status.started_at, status.state, report))
        return sorted(listed, key=lambda one: (one.started_at, one.name), reverse=True)

    def bundle(self, name: str) -> Bundle | None:
        """Finds it by the name of its directory; None: there is none of that name in this
        folder."""
        listed = {one.name for one in self.bundles()}
        return Bundle(self.path / name) if name in listed else None

    def report(self, bundle: Bundle) -> BinaryIO | None:
        """Its page, which is the caller's to close; None: it has none yet."""
        return opened(self.path, f"{bundle.path.name}/{REPORT}")

    def figures(
        self, bundles: Sequence[Listed], words: str = ""
    ) -> tuple[list[Listed], list[FigureRow]]:
        """Results whose names and verdicts have all of these words in them; and the bundles again,
        with what is damaged of each: one that cannot be read hides no other."""
        try:
            return [*bundles], self._rows(bundles, words)
        except BundleError:
            read, rows = [], []
            for one in bundles:
                try:
                    rows += self._rows([one], words)
                    read.append(one)
                except BundleError as error:
                    read.append(replace(one, damage=str(error)))
            return read, rows

    def _rows(self, bundles: Sequence[Listed], words: str) -> list[FigureRow]:
        wanted = words.split()
        if not bundles:
            return []
        sql = _FIGURES.format(words=" AND ".join([_WORD] * len(wanted)) or "true")
        _, rows = query([self.path / one.name for one in bundles], sql, wanted)
        return [_row(row) for row in rows]


def _utf8(name: str) -> bool:
    """Whether a page can name it."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _row(row: tuple[object, ...]) -> FigureRow:
    bundle, chain, workload, direction, execution, goal, load, *figures = row
    median, low, high, loss, p99, verdicts, count = figures
    assert isinstance(verdicts, list)
    return FigureRow(
        bundle=str(bundle),
        key=FigureKey(
            str(chain), str(workload), str(direction), str(execution), str(goal), _number(load)
        ),
        throughput_pps=_number(median) or 0.0,
        low_pps=_number(low) or 0.0,
        high_pps=_number(high) or 0.0,
        loss_ratio=_number(loss) or 0.0,
        p99_ns=_number(p99),
        verdict=worst(one for one in VERDICTS if one in verdicts),
        repetitions=int(_number(count) or 0),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def by_place(rows: Sequence[FigureRow]) -> Mapping[tuple[object, ...], list[FigureRow]]:
    """Keeps the order of their first rows."""
    places: dict[tuple[object, ...], list[FigureRow]] = {}
    for row in rows:
        places.setdefault(row.key.place, []).append(row)
    return places
