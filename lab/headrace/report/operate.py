# SPDX-License-Identifier: Apache-2.0
"""What policies made of a load that changes, as sections of a bundle's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.analyse.units import ns, percent, plural, significant
from headrace.record.bundle import Bundle
from headrace.record.operate import Decision, Operated, OperateLog, operate_logs
from headrace.record.rows import Result
from headrace.report.charts.operated import OperatedCourse, OperatedLine, OperatedPoint
from headrace.report.document_model import (
    Chart,
    Column,
    Folded,
    Items,
    Row,
    Section,
    Table,
    strokes,
)

_SHOWN = 200  # decisions of a policy
_ORACLE = "oracle"


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of something else; one for each chain, deployment and repetition, and one
    before them for all chains that share lcores."""
    runs = _runs(bundle.results())
    logs = operate_logs(bundle.path)
    for rows in _together(runs):
        yield _shared(rows, [logs[row.trial] for row in rows if row.trial in logs])
    for rows in runs:
        known = [logs[row.trial] for row in rows if row.trial in logs]
        yield _section(rows, known, several=len(runs) > 1)


def sentence(bundle: Bundle) -> str:
    """Each policy's lcores and windows, of the first deployment; empty of something else."""
    runs = _runs(bundle.results())
    if not runs:
        return ""
    texts = (
        _kept(row, row.operated)
        + ", doubted" * (row.ground == "measured" and not row.audit.trusted)
        for row in (_together(runs) or runs)[0]
        if row.operated is not None
    )
    return f"{'; '.join(texts)}."


def _kept(row: Result, one: Operated) -> str:
    kept = "no window had a packet"
    if one.kept is not None:
        kept = f"SLO kept in {percent(one.kept, 5)} of the windows"
    who = one.policy if one.shared is None else f"{one.policy}, {row.chain}"
    return f"{who}: {significant(one.mean_lcores)} lcores in the mean, {kept}"


def _together(runs: Sequence[Sequence[Result]]) -> list[list[Result]]:
    """Those of chains that share lcores."""
    together: dict[tuple[str, str, int], list[Result]] = {}
    for row in (row for rows in runs for row in rows):
        if row.operated is not None and row.operated.shared is not None:
            key = (row.execution, row.workload, row.repetition)
            together.setdefault(key, []).append(row)
    return list(together.values())


def _runs(results: Sequence[Result]) -> list[list[Result]]:
    runs: dict[tuple[str, str, str, int], list[Result]] = {}
    for row in results:
        if row.operated is not None:
            key = (row.chain, row.execution, row.workload, row.repetition)
            runs.setdefault(key, []).append(row)
    return list(runs.values())


def _shared(rows: Sequence[Result], logs: Sequence[OperateLog]) -> Section:
    first = rows[0]
    policies: dict[str, list[Result]] = {}
    for row in rows:
        assert row.operated is not None  # _together
        policies.setdefault(row.operated.policy, []).append(row)
    columns = (
        "chain",
        Column("weight", optional=True),
        Column("lcores", digits=4),
        Column("needed", digits=3),
        Column("offered", "rate"),
        Column("done", "rate"),
        Column("held back", "loss"),
        Column("lost", "loss"),
        Column("wasted", digits=3, unit="s", from_width=100),
        Column("SLO kept", "share", digits=5, optional=True),
        Column("windows broken", "count"),
    )
    lines = [line for name, own in policies.items() for line in _shared_rows(name, own)]
    drawn, own = next(iter(policies.items()))
    of_drawn = [log for log in logs if log.operated.policy == drawn]
    about = f"{first.execution}, {first.workload}, repetition {first.repetition}; drawn: {drawn}"
    return Section(
        "Chains that share lcores",
        _shared_note(first),
        (
            Table(columns, tuple(lines), grouped_by="policy"),
            *_chart(of_drawn, [row.chain for row in own]),
        ),
        about=about,
    )


def _shared_note(row: Result) -> str:
    assert row.operated is not None and row.operated.shared is not None  # _together
    shared = row.operated.shared
    held = "no source is held back: a chain that has too few drops packets where rings are full"
    if shared.backpressure:
        held = "a chain that has too few has its source held back"
    return (
        f"All have the same {shared.lcores} lcores. Where they need more, these are divided by "
        f"weight; {held}. Needed: lcores that the policy asked for. Wasted: core-seconds on "
        "packets that were dropped behind them."
    )


def _shared_rows(policy: str, rows: Sequence[Result]) -> Iterator[Row]:
    """One for each chain, and their sum."""
    known = [(row, one, one.shared) for row in rows if (one := row.operated) and one.shared]
    for row, one, shared in known:
        yield Row(
            (
                row.chain, shared.weight, one.mean_lcores, shared.mean_asked, row.offered_pps,
                row.throughput_pps, _part(shared.held_back, row.intended), row.loss_ratio,
                shared.wasted_core_seconds, one.kept, one.broken,
            ),
            group=policy,
        )  # fmt: skip
    sent, asked = (sum(getattr(row, key) for row in rows) for key in ("sent", "intended"))
    yield Row(
        (
            "all", None, sum(one.mean_lcores for _, one, _ in known),
            sum(shared.mean_asked for *_, shared in known),
            sum(row.offered_pps for row in rows), sum(row.throughput_pps for row in rows),
            _part(sum(shared.held_back for *_, shared in known), asked),
            _part(sum(row.lost for row in rows), sent),
            sum(shared.wasted_core_seconds for *_, shared in known), None,
            sum(one.broken for _, one, _ in known),
        ),
        group=policy,
    )  # fmt: skip


def _part(many: int, of: int) -> float:
    return many / of if of else 0.0


def _section(rows: Sequence[Result], logs: Sequence[OperateLog], several: bool) -> Section:
    first = rows[0]
    policies = [row.operated for row in rows if row.operated is not None]
    which = f"{first.chain}, {first.execution}, {first.workload}"
    about = f"{which}, repetition {first.repetition}" if several else which
    slo = policies[0]
    note = (
        f"A window is broken when the p99 of its packets is above {ns(slo.slo_p99_ns)}, or more "
        f"than {percent(slo.slo_loss)} of them are lost{', or held back' if slo.shared else ''}. "
        "Lcores that begin and that leave count."
    )
    remarks = dict.fromkeys(
        f"No number of lcores keeps the SLO all the time: {one.unkeepable}."
        for one in policies
        if one.unkeepable
    ) | dict.fromkeys(
        f"{one.policy}: {row.audit.verdict}: {finding.text}"
        for row, one in zip(rows, policies, strict=True)
        for finding in row.audit.failed
    )
    return Section(
        "A load that changes",
        note,
        (_table(rows, policies), Items(tuple(remarks)), *_chart(logs), *_decisions(logs)),
        about=about,
    )


def _table(rows: Sequence[Result], policies: Sequence[Operated]) -> Table:
    columns = (
        "policy",
        Column("lcores", digits=4),
        Column("at most", "count"),
        Column("core-seconds", digits=5),
        Column("of the oracle's", digits=3, optional=True),
        Column("SLO kept", "share", digits=5, optional=True),
        Column("windows broken", "count"),
        Column("longest", digits=3, unit="s", from_width=110),
        Column("lost", "loss"),
        Column("steps", "count"),
        Column("buckets moved", "count"),
        Column("learned", optional=True, from_width=100),
        Column("audit", "verdict"),
    )
    oracle = next((one.core_seconds for one in policies if one.policy == _ORACLE), None)
    lines = tuple(
        (
            one.policy, one.mean_lcores, one.most_lcores, one.core_seconds,
            one.core_seconds / oracle if oracle else None, one.kept, one.broken,
            one.longest_broken_s, row.loss_ratio,
            one.steps, one.moves, one.learned, row.audit.verdict,
        )
        for row, one in zip(rows, policies, strict=True)
    )  # fmt: skip
    return Table(columns, lines)


def _chart(logs: Sequence[OperateLog], chains: Sequence[str] = ()) -> Iterator[Chart]:
    """A line for each policy; with `chains` for each of them, with its load."""
    if not logs:
        return
    lines = tuple(
        OperatedLine(
            name,
            tuple(
                OperatedPoint(point.at_s, point.offered_pps, point.lcores, point.broken)
                for point in log.course
            ),
        )
        for name, log in zip(chains or [log.operated.policy for log in logs], logs, strict=True)
    )
    keys = strokes([one.name for one in lines])
    yield Chart(OperatedCourse(lines, logs[0].operated.seconds, loads=bool(chains)), keys)


def _decisions(logs: Sequence[OperateLog]) -> Iterator[Folded]:
    for log in logs:
        if not log.decisions:
            continue
        shown = log.decisions[:_SHOWN]
        more = len(log.decisions) - len(shown)
        note = "what was expected of each, and what came"
        note += f"; the first {_SHOWN} of {len(log.decisions)}" if more else ""
        title = f"{log.operated.policy}: {plural(len(log.decisions), 'step')}"
        yield Folded(title, note, (_log(shown),))


def _log(decisions: Sequence[Decision]) -> Table:
    columns = (
        Column("at", digits=5, unit="s"),
        Column("lcores", "text"),
        Column("buckets moved", "count"),
        Column("settled in", unit="s"),
        Column("busy, expected", "share", optional=True),
        Column("came", "share"),
        Column("p99, expected", "own-time", optional=True),
        Column("came", "own-time"),
        Column("why", "text"),
    )
    lines = tuple(
        (
            one.at_s, f"{one.lcores_before} → {one.lcores_after}", one.moved, one.settled_s,
            one.expected_busy, one.came_busy, one.expected_p99_ns, one.came_p99_ns, one.why,
        )
        for one in decisions
    )  # fmt: skip
    return Table(columns, lines)
