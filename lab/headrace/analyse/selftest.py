# SPDX-License-Identifier: Apache-2.0
"""Whether the parts of a self-test work: packets that came back and counters that add up, not how
fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.analyse.units import plural
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.record.selftest import SelftestOutput, SelftestPart

# Checks of the audit that a working deployment passes on any machine, however busy that is. The
# others doubt figures, of which none is wanted here.
FUNCTIONAL = frozenset({
    "conservation", "accounting", "surplus", "content", "placement", "emulated", "link", "port",
})  # fmt: skip


def selftest_output(
    bundle: str | None,
    rows: Sequence[PointRow],
    abouts: Mapping[str, str],
    results: Sequence[Result],
    lacking: Iterable[str],
) -> SelftestOutput:
    """`abouts`: of each group; `lacking`: points that failed as this machine has not what they
    take, which showed when they were checked."""
    missing = frozenset(lacking)
    parts = tuple(
        _part(row, abouts[row.group], [r for r in results if r.chain == row.point], missing)
        for row in rows
    )
    outcomes = [one.outcome for one in parts]
    return SelftestOutput(
        bundle=bundle,
        passed=outcomes.count("passed"),
        failed=outcomes.count("failed"),
        skipped=outcomes.count("skipped"),
        parts=parts,
    )


def _part(
    row: PointRow, about: str, results: Sequence[Result], lacking: frozenset[str]
) -> SelftestPart:
    part = SelftestPart(group=row.group, part=row.point, about=about, outcome="skipped")
    if row.skipped is not None:
        return part.model_copy(update={"why": row.skipped})
    if row.failed is not None:
        outcome = "skipped" if row.point in lacking else "failed"
        return part.model_copy(update={"outcome": outcome, "why": row.failed})
    faults = list(dict.fromkeys(_faults(results)))
    failed = [one for result in results for one in result.audit.failed]
    doubts = dict.fromkeys(one.text for one in failed if one.check not in FUNCTIONAL)
    summed = [one for one in results if one.direction == "both"] or results
    return part.model_copy(
        update={
            "outcome": "failed" if faults else "passed",
            "why": " ".join(faults) or None,
            "doubts": tuple(doubts),
            "sent": sum(one.sent for one in summed),
            "received": sum(one.received for one in summed),
        }
    )


def _faults(results: Sequence[Result]) -> Iterator[str]:
    if not results:
        yield "Nothing was measured."
    for one in results:
        if not one.sent:
            yield "Nothing was sent."
        elif one.lost:
            places = ", ".join(f"{place} {count}" for place, count in sorted(one.drops.items()))
            where = f" ({places})" if places else ""
            yield f"Of {plural(one.sent, 'packet')} {one.lost} were lost{where}."
        if one.duplicated:
            yield f"{plural(one.duplicated, 'packet')} came twice."
        yield from (f.text for f in one.audit.failed if f.check in FUNCTIONAL)
