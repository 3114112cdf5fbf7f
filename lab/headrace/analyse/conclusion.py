# SPDX-License-Identifier: Apache-2.0
"""What results that stand in one table come to, in one sentence: which execution is best, by how
much, why, and how sure that is. Terminal, page, `explain` and JSON have this very sentence.

Rates are judged by capacities, which a disturbed machine leaves as they are, where all executions
have one; NDR and PDR count the losses of such a machine, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from headrace.analyse.bottleneck import Pipe
from headrace.analyse.capacity import CycleCost, carried_pps
from headrace.analyse.lcores import Lcore, lcores_of
from headrace.analyse.summary import Summary
from headrace.analyse.units import ns, percent, plural, pps, significant
from headrace.model.lines_between import same_state
from headrace.model.paired import Rounds, paired
from headrace.record.estimates import Capacity, Interval, Paired
from headrace.record.frozen import Record
from headrace.record.rows import Trial
from headrace.record.text import all_of
from headrace.record.verdict import DISTURBANCES

DISTURBING = DISTURBANCES | {"search"}
STARTS = 0.1  # by as much starts of one execution differ (docs/measuring.md)
_AS_STARTS_DIFFER = ", as starts of one execution differ by as much, before it is repeated"
_AS_NOT_TOLD = ", as the comparison in turn did not tell"
_AS_DISTURBED = ", as the machine took of what {} carried, before it is repeated"
CAUSE = 0.25  # of a difference: a cost that makes less of it is not its cause
OFFSET = 0.05  # of what a cost saves: where others take back more than that, it is said


class Standing(Record):
    """An execution with the figure that it is judged by."""

    execution: str
    figure: Interval  # packets/s; of fixed loads the p99 of latency, ns
    each: tuple[float, ...] = ()  # one for each repetition, or for each turn at `figure`'s clock
    verdict: str
    at_least: bool = False  # the tester was the limit
    of_best: float | None = None  # its figure over the best's; in turn where there are turns
    lcores: tuple[Lcore, ...] = ()

    @property
    def fullest(self) -> Lcore | None:
        """The one of the chain that has the fewest cycles left."""
        return max((one for one in self.lcores if one.chain), key=lambda i: i.busy, default=None)


class Conclusion(Record):
    sentence: str
    by: str  # what the executions are judged by
    by_latency: bool = False  # rather than by rate
    best: str | None = None  # none where several tie or nothing can be believed
    tied: tuple[str, ...] = ()
    ratio: Interval | None = None  # of the best to the next
    pairs: int = 0  # measured beside each other in time, that the ratio is of; 0: none were
    sure: bool = False  # every figure passed its audit
    standings: tuple[Standing, ...] = ()  # the best first


def conclude(
    explained: Sequence[tuple[Summary, Pipe]],
    turns: Rounds | None = None,
    quietest: Mapping[str, Trial] | None = None,
    lines: Mapping[int, float] | None = None,
) -> Conclusion | None:
    """None where nothing was measured. The summaries are of one goal. `turns`: capacities of the
    comparison in turn, and `quietest` the trial of it that shows best where cycles go. `lines`:
    what a line of another lcore took in each trial."""
    usable = [(s, p) for s, p in explained if s.verdict != "invalid"]
    if not usable:
        names = ", ".join(s.key.execution for s, _ in explained)
        text = f"No execution can be named best: no result of {names} measured the chain."
        return Conclusion(sentence=text, by="") if explained else None
    fixed = usable[0][0].key.load_pps is not None
    turns = turns or Rounds({})
    if not fixed and (unmet := [s for s, _ in usable if s.unmet_pps is not None]):
        met = [(s, p) for s, p in usable if s.unmet_pps is None]
        rest = conclude(met, turns, quietest, lines) if met else None
        return _of_unmet(unmet, rest, turns)
    if fixed and not all("p99" in s.latency_ns for s, _ in usable):
        return None
    known = {s.key.execution: s.capacity for s, _ in usable if s.capacity is not None}
    if not fixed and len(known) == len(usable) and all(one.at_limit for one in known.values()):
        return _by_capacity(usable, known, turns, quietest or {}, lines or {})
    standings = [_standing(s, p, fixed) for s, p in usable]
    standings.sort(key=lambda one: one.figure.value if fixed else -one.figure.value)
    first = usable[0][0]
    by = f"p99 at {pps(first.key.load_pps)}" if fixed else first.key.goal_text
    sure = all(one.verdict == "ok" for one in standings[:2])
    ended = f"{_seen(usable)}{_doubt(standings)}."
    if len(standings) == 1:
        return _of_one(standings[0], by, fixed, ended)
    if (untold := _untellable(standings, usable, turns, fixed)) is not None:
        return _untold(standings, untold, by, fixed, ended)
    tied = [one for one in standings[1:] if _overlap(standings[0], one)]
    ratio = _ratio(standings[0].figure, standings[1].figure)
    if tied:
        limits = "" if fixed else _limits([standings[0], *tied])
        text = f"{_tie([standings[0], *tied], standings, by, fixed)}{limits}; {ended}"
        best = None
    else:
        # Cycles say what an lcore can carry; far below that they are not what a tail waits for.
        why = "" if fixed else _why(*standings[:2])
        text = f"{_best(standings[0], standings[1], ratio, by, fixed)}{why}; {ended}"
        best = standings[0].execution
    return Conclusion(
        sentence=text,
        by=by,
        by_latency=fixed,
        best=best,
        tied=tuple(one.execution for one in (standings[0], *tied)) if tied else (),
        ratio=ratio,
        sure=sure and not tied,
        standings=tuple(standings),
    )


def _untellable(
    standings: Sequence[Standing],
    usable: Sequence[tuple[Summary, Pipe]],
    turns: Rounds,
    fixed: bool,
) -> str | None:
    """Why none can be named best, where that is so. That the comparison in turn left nothing to
    compare by is not made good by one search of each, some minutes apart."""
    once = usable[0][0].key.ground == "measured" and _repetitions(usable) == 1
    if fixed:
        return " before it is repeated" if once else None
    if once and _told_nothing(turns, [s for s, _ in usable]):
        return _AS_NOT_TOLD
    first, *others = standings
    if more := [one.execution for one in others if one.at_least]:
        return f", as more packets than {all_of(more)} had were not made"
    held_up = {s.key.execution for s, _ in usable if _disturbed(s)}
    behind = [one.execution for one in others if one.execution in held_up]
    if once and behind:
        return _AS_DISTURBED.format(all_of(behind))
    ratio = _ratio(first.figure, others[0].figure)
    apart = not any(_overlap(first, one) for one in others)
    if once and apart and ratio is not None and ratio.value < 1 + STARTS:
        return _AS_STARTS_DIFFER
    return None


def _of_one(one: Standing, by: str, fixed: bool, ended: str) -> Conclusion:
    text = f"{_alone(one, by, fixed)}; {ended}"
    sure = one.verdict == "ok"
    return Conclusion(sentence=text, by=by, by_latency=fixed, sure=sure, standings=(one,))


def _told_nothing(turns: Rounds, summaries: Sequence[Summary]) -> bool:
    """Whether executions were compared in turn, and the machine left no two starts of each alone.
    Other engines tell no capacities, however quiet it is."""
    if len(turns.rates) < 2 or not any(map(_disturbed, summaries)):
        return False
    each = (rates.values() for rates in (turns.rates, turns.every) if rates)
    return all(min(map(len, some)) < 2 for some in each)


def _unsent(s: Summary) -> str:
    if not s.unmet_by_generator:
        return ""
    return f" ({percent(s.unsent)} of whose packets were not made in time)"


def _of_unmet(unmet: Sequence[Summary], rest: Conclusion | None, turns: Rounds) -> Conclusion:
    """An execution for which no load met the goal has no figure, and is compared with none."""
    goal = unmet[0].key.goal_text
    tried = ", ".join(f"{s.key.execution} {pps(s.unmet_pps or 0.0)}{_unsent(s)}" for s in unmet)
    text = f"No load that was tried met {goal}, down to: {tried}."
    if _told_nothing(turns, unmet):
        text += f" Which is best of {all_of(turns.rates)} is not known{_AS_NOT_TOLD}."
    if rest is None:
        return Conclusion(sentence=text, by=goal)
    return rest.model_copy(update={"sentence": f"{rest.sentence} {text}", "sure": False})


def _untold(
    standings: Sequence[Standing], why: str, by: str, fixed: bool, ended: str
) -> Conclusion:
    """One repetition of a tail says nothing about the next; and who has carried all that there was
    may carry more than who stands before him."""
    figures = all_of(f"{one.execution} {_text(one, fixed)}" for one in standings)
    text = f"Which is best is not known{why}: {by} {figures}; {ended}"
    return Conclusion(sentence=text, by=by, by_latency=fixed, standings=tuple(standings))


def _by_capacity(
    usable: Sequence[tuple[Summary, Pipe]],
    known: Mapping[str, Capacity],
    turns: Rounds,
    quietest: Mapping[str, Trial],
    lines: Mapping[int, float],
) -> Conclusion:
    standings = sorted(
        (
            Standing(
                execution=(name := s.key.execution),
                figure=known[name].pps,
                each=tuple(rate * known[name].clock_hz for rate in turns.rates.get(name, ())),
                verdict="ok",  # what the audit doubts of the search is not in these slices
                lcores=lcores_of(quietest.get(name, s.typical)),
            )
            for s, _ in usable
        ),
        key=lambda one: -one.figure.value,
    )
    standings = _best_first(standings, turns, known)
    first, base = standings[0], usable[0][0].key.goal_text
    losses = "; ".join(_measured(s, base, lines) for s, _ in usable)
    compared = sorted(
        (paired(first.execution, one.execution, turns, known) for one in standings[1:]),
        key=lambda one: one.ratio.value,
    )
    by_name = {one.execution: one for one in standings}
    others = (
        by_name[one.base].model_copy(update={"of_best": 1 / one.ratio.value}) for one in compared
    )
    standings = [first, *others]
    judged = {verdict: [one.base for one in compared if one.verdict == verdict]
              for verdict in ("tie", "unknown")}  # fmt: skip
    tied = () if judged["unknown"] or not judged["tie"] else (first.execution, *judged["tie"])
    settled = not judged["unknown"] and not tied
    text = _judged(standings, compared, known[first.execution].clock_hz)
    return Conclusion(
        sentence=f"{text}; {losses}.",
        by="capacity",
        best=first.execution if settled and compared else None,
        tied=tied,
        ratio=compared[0].ratio if compared else None,
        pairs=compared[0].pairs if compared else 0,
        sure=settled,
        standings=tuple(standings),
    )


def _judged(standings: Sequence[Standing], compared: Sequence[Paired], clock_hz: float) -> str:
    """`compared`: the first of the standings with each of the others."""
    first = standings[0]
    what = f"capacity {_plus_minus(first.figure)} at {significant(clock_hz / 1e9)} GHz"
    if not compared:
        return f"{first.execution}: {what}"
    near = [one for one in compared if one.verdict != "faster"]
    if not near:
        return f"{first.execution} is best: {what}, {_times(compared[0])}{_why(*standings[:2])}"
    ahead = [one.base for one in compared if one.verdict == "faster"]
    rest = f", ahead of {', '.join(ahead)}" if ahead else ""
    names = all_of((first.execution, *(one.base for one in near)))
    if unknown := [one for one in near if one.verdict == "unknown"]:
        widest = max(unknown, key=lambda one: one.ratio.half)
        return (
            f"Which is best of {names} is not known: {first.execution}'s {what}, "
            f"{_times(widest)}{rest}"
        )
    limits = _limits([one for one in standings if one.execution not in ahead])
    return f"{names} tie: {what}, {_times(near[0])}{rest}{limits}"


def _best_first(
    standings: Sequence[Standing], turns: Rounds, known: Mapping[str, Capacity]
) -> list[Standing]:
    """Orders them by capacity; but one that is faster in turn than what stands first is first, as
    starts of these were beside each other. The others' order is by the ratio to it, for the same
    reason."""
    first = standings[0]
    for one in standings[1:]:
        if paired(one.execution, first.execution, turns, known).verdict == "faster":
            first = one
    return [first, *(one for one in standings if one is not first)]


def _plus_minus(one: Interval) -> str:
    return f"{pps(one.value)} ± {significant(100 * one.half / one.value, 2)} %"


def _times(one: Paired) -> str:
    over = plural(one.pairs, "pair") if one.pairs > 1 else "one start of each"
    over += " in several states of the machine" if one.mixed else ""
    digits = 2 if one.ratio.half >= 0.01 else 3
    ratio = f"{one.ratio.value:.{digits}f} ± {one.ratio.half:.{digits}f}"
    return f"{ratio} times {one.base} ({over}, 95 %)"


def _measured(s: Summary, goal: str, lines: Mapping[int, float]) -> str:
    """What its search found, and whether the machine had a part in it."""
    disturbed = " on a disturbed machine" if _disturbed(s) else ""
    rates = [carried_pps(r) for r in s.results]
    return f"{s.key.execution} {goal} {pps(median(rates))}{disturbed}{_elsewhere(s, lines)}"


def _disturbed(s: Summary) -> bool:
    checks = {f.check for r in s.results for f in r.audit.findings if not f.ok}
    return bool(checks & DISTURBING)


def _elsewhere(s: Summary, lines: Mapping[int, float]) -> str:
    """What was measured while the lcores were nearer to each other than in what the capacity is of,
    or further apart, is not to be held against it: it may well be more."""
    known = [
        (line, r.capacity.line_cycles)
        for r in s.results
        if r.trial is not None and (line := lines.get(r.trial))
        if r.capacity is not None and r.capacity.line_cycles
    ]
    if not known or any(same_state(*pair) for pair in known):
        return ""
    nearer = all(line < usual for line, usual in known)
    return f" with its lcores {'nearer to each other' if nearer else 'further apart'}"


def _standing(s: Summary, pipe: Pipe, fixed: bool) -> Standing:
    tester = pipe.narrowest is not None and pipe.part(pipe.narrowest).role != "chain"
    return Standing(
        execution=s.key.execution,
        figure=_latency(s) if fixed else _rate(s),
        each=() if fixed else tuple(carried_pps(r) for r in s.results),
        verdict=s.verdict,
        at_least=not fixed and (s.lower_bound or tester),
        lcores=lcores_of(s.typical),
    )


def _latency(s: Summary) -> Interval:
    p99 = s.latency_ns["p99"]
    return Interval(value=p99.median, low=p99.min, high=p99.max)


def _rate(s: Summary) -> Interval:
    """The load that was carried: from the least to the most that a repetition showed, its search's
    upper bound included; of a prediction all that its server's description allows."""
    rates = [carried_pps(r) for r in s.results]
    upper = [r.bounds.upper_pps for r in s.results if r.bounds and r.bounds.upper_pps]
    known = (r.predicted.carried_pps for r in s.results if r.predicted is not None)
    ranges = [one for one in known if one is not None]
    low = min([*rates, *(one.low for one in ranges)])
    high = max([*rates, *upper, *(one.high for one in ranges)])
    return Interval(value=median(rates), low=low, high=high)


def _overlap(one: Standing, other: Standing) -> bool:
    return one.figure.low <= other.figure.high and other.figure.low <= one.figure.high


def _ratio(one: Interval, other: Interval) -> Interval | None:
    if not other.low or not other.value:
        return None
    low, high = one.low / other.high, one.high / other.low
    return Interval(value=one.value / other.value, low=low, high=high)


def _text(one: Standing, fixed: bool) -> str:
    least = "at least " if one.at_least else ""
    return least + (ns if fixed else pps)(one.figure.value)


def _alone(one: Standing, by: str, fixed: bool) -> str:
    say = ns if fixed else pps
    between = ""
    if one.at_least and one.figure.value > one.figure.low:
        between = f" ({say(one.figure.low)} at the low end of its range)"
    elif one.figure.high > one.figure.low:
        between = f" ({say(one.figure.low)} to {say(one.figure.high)})"
    what = f"{one.execution}: {by} {_text(one, fixed)}{between}"
    full = one.fullest
    costs = _costs(full) if full else []
    if full is None or not costs:
        return what
    most = max(costs, key=lambda c: c.cycles)
    return (
        f"{what}; lcore {full.cpu} is the fullest, with {significant(full.busy)} cycles per "
        f"packet, the most of them ({significant(most.cycles)}) in {_called(most.name)}"
    )


def _best(one: Standing, other: Standing, ratio: Interval | None, by: str, fixed: bool) -> str:
    times = ""
    if ratio is not None:
        of = f"{significant(ratio.low)} to {significant(ratio.high)}"
        least = ""
        if one.at_least:  # there is no most
            least, of = "at least ", f"{significant(ratio.low)} at the ends of both ranges"
        times = f", {least}{significant(ratio.value)} times {other.execution} ({of})"
    return f"{one.execution} is best: {by} {_text(one, fixed)}{times}"


def _tie(tied: Sequence[Standing], standings: Sequence[Standing], by: str, fixed: bool) -> str:
    names = all_of(one.execution for one in tied)
    figures = all_of(_text(one, fixed) for one in tied)
    behind = [one.execution for one in standings if one not in tied]
    rest = f", ahead of {', '.join(behind)}" if behind else ""
    return f"{names} tie: {by} {figures}, whose ranges overlap{rest}"


def _why(one: Standing, other: Standing) -> str:
    """Explains it by the fullest lcores: what a packet costs there, and which cost makes the
    difference."""
    a, b = one.fullest, other.fullest
    if a is None or b is None:
        return ""
    counts = [sum(i.alike for i in s.lcores if i.chain) for s in (one, other)]
    on = f", on {plural(counts[0], 'lcore')} against {counts[1]}" if counts[0] != counts[1] else ""
    if a.busy >= b.busy:
        return on
    costs = Counter({c.name: c.cycles for c in _costs(b)})
    costs.subtract({c.name: c.cycles for c in _costs(a)})
    name, saved = max(costs.items(), key=lambda item: item[1], default=("", 0.0))
    cause = ""
    if saved >= CAUSE * (b.busy - a.busy):
        cause = f", {significant(saved)} fewer in {_called(name)}"
        more = saved - (b.busy - a.busy)
        cause += f" and {significant(more)} more elsewhere" if more > OFFSET * saved else ""
    return (
        f"{on}, because its fullest lcore spends {significant(a.busy)} cycles per packet carried, "
        f"{other.execution}'s {significant(b.busy)}{cause}"
    )


def _limits(tied: Sequence[Standing]) -> str:
    """What limits executions that tie: of each the fullest lcore, and what it spends most on."""
    fullest = [(one.execution, full) for one in tied if (full := one.fullest) is not None]
    known = [(name, lcore, costs) for name, lcore in fullest if (costs := _costs(lcore))]
    if len(known) < max(2, len(tied)):
        return ""
    parts = []
    for name, lcore, costs in known:
        most = max(costs, key=lambda c: c.cycles)
        parts.append(
            f"{name}'s lcore {lcore.cpu} with {significant(lcore.busy)} cycles per packet carried, "
            f"{significant(most.cycles)} of them in {_called(most.name)}"
        )
    return f"; what limits them: {', '.join(parts)}"


def _costs(lcore: Lcore) -> list[CycleCost]:
    return [c for c in lcore.spent if c.kind in ("nf", "links", "loop")]


def _called(name: str) -> str:
    return {"loop": "the loop"}.get(name, name)


def _seen(explained: Sequence[tuple[Summary, Pipe]]) -> str:
    if explained[0][0].key.ground == "predicted":
        return "predicted, and not measured"
    times = _repetitions(explained)
    return "one repetition" if times == 1 else f"the ranges of {times} repetitions"


def _repetitions(explained: Sequence[tuple[Summary, Pipe]]) -> int:
    return min(s.throughput_pps.n for s, _ in explained)


def _doubt(standings: Sequence[Standing]) -> str:
    doubtful = [one for one in standings if one.verdict not in ("ok", "generator-bound")]
    if not doubtful:
        return ""
    if len(doubtful) == len(standings):
        return ", and not sure: the audit doubts all of them" if len(standings) > 1 else ", doubted"
    return f", and not sure: the audit doubts {', '.join(one.execution for one in doubtful)}"


def overall(conclusions: Sequence[Conclusion]) -> str:
    """How often which execution is best, where there are several chains or workloads."""
    if len(conclusions) <= 1:
        return conclusions[0].sentence if conclusions else ""
    won = Counter(one.best for one in conclusions if one.best)
    parts = [f"{name} is best in {n}" for name, n in won.most_common()]
    if ties := sum(bool(one.tied) for one in conclusions):
        parts.append(f"{ties} {'is a tie' if ties == 1 else 'are ties'}")
    if rest := len(conclusions) - sum(won.values()) - ties:
        parts.append(f"{rest} {'names' if rest == 1 else 'name'} none")
    return f"Of {len(conclusions)} chains and workloads {', '.join(parts)}."
