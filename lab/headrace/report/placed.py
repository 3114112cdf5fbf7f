# SPDX-License-Identifier: Apache-2.0
"""A placement of chains as a document: the server's picture, where each chain is and why."""

from __future__ import annotations

from headrace.analyse.units import NOT_KNOWN, percent, plural, significant
from headrace.profile.settled import value_text
from headrace.report.charts.bars import fills
from headrace.report.charts.server_picture import DrawnCache, DrawnLcore, DrawnServer, Sockets
from headrace.report.document_model import (
    Cell,
    Chart,
    Column,
    Document,
    Key,
    Row,
    Section,
    Table,
    Text,
)
from headrace.spec.placement import NextBest, PlacementPlan, SettledChain

_NEXT = 3  # of the places where a chain could be, else


def document(plan: PlacementPlan) -> Document:
    names = ", ".join(chain.chain for chain in plan.chains)
    servers = len(plan.answer.problem.servers)
    where = plan.server if servers == 1 else f"{servers} servers {plan.server}"
    return Document(
        title=f"Placement on {where}",
        subtitle=f"{plural(len(plan.chains), 'chain')}: {names}; predicted, nothing was run",
        sentence=sentence(plan),
        cautions=plan.cautions,
        sections=(_picture(plan), _chains(plan), _why(plan), _limits(plan), _proof(plan)),
    )


def sentence(plan: PlacementPlan) -> str:
    problem, value = plan.answer.problem, plan.answer.value
    used = sum(bool(one.parts) for one in plan.lcores)
    told = {
        "rate": f"all chains can carry {_times(plan)} times what is asked",
        "latency": f"the chains' latencies come to {significant(value / 1e3)} µs in all",
        "lcores": "what is asked is carried",
        "money": f"{value} USD of servers carry what is asked",
        "watts": f"{value / 1000:g} W (predicted, not measured) carry what is asked",
    }[problem.aim]
    limit = "" if problem.aim == "rate" else f", none of them over {problem.full / 100:g} % busy"
    return (
        f"On {used} of {len(plan.lcores)} lcores {told}{limit}; the placement is {plan.word}, "
        f"which is proved {plan.proof}."
    )


def _times(plan: PlacementPlan) -> str:
    """How much more than what is asked all chains can carry at once."""
    return significant(10_000 / plan.answer.value)


def _picture(plan: PlacementPlan) -> Section:
    colours = fills([chain.chain for chain in plan.chains])
    servers = []
    for server in plan.answer.problem.servers:
        lcores = [one for one in plan.lcores if one.server == server.name]
        caches = tuple(
            DrawnCache(
                place,
                tuple(
                    DrawnLcore(
                        one.cpu,
                        tuple((colours[name], name, part) for name, part in one.parts.items()),
                    )
                    for one in lcores
                    if one.place == place
                ),
                _ports(plan, server.name, place),
            )
            for place in dict.fromkeys(one.place for one in lcores)
        )
        if any(one.parts for one in lcores):
            servers.append(DrawnServer(server.name, caches))
    legend = tuple(
        Key(colours[c.chain], c.chain) for c in plan.chains[: len(set(colours.values()))]
    )
    note = "Each lcore is filled as far as it is busy, in the colours of its chains."
    if plan.answer.problem.aim == "rate":
        note += " All of this is at the rates that can be carried: the narrowest is full."
    if len(plan.chains) > len(legend):
        note += " Colours come again after eight chains; an lcore's own list is under the pointer."
    return Section("Where everything is", note, (Chart(Sockets(tuple(servers)), legend, "page"),))


def _ports(plan: PlacementPlan, server: str, place: str) -> tuple[tuple[str, float], ...]:
    problem = plan.answer.problem
    nodes = {a.node for a in problem.areas
             if a.name == place and problem.servers[a.server].name == server}  # fmt: skip
    first = next(a for a in problem.areas
                 if a.node in nodes and problem.servers[a.server].name == server)  # fmt: skip
    if first.name != place:  # ports are drawn at the first cache of their socket
        return ()
    doors = {
        door.name: door
        for door in problem.chains[0].doors
        if door.node in nodes and problem.servers[door.server].name == server
    }
    shares = {limit.name: limit.share for limit in plan.limits}
    return tuple((name, shares.get(f"{server}: {name}", 0.0)) for name in doors)


def _chains(plan: PlacementPlan) -> Section:
    rows = []
    fills = plan.answer.problem.aim == "rate"
    rate = f"{_times(plan)} times" if fills else "asked"
    full = (
        f"All is at {rate} what is asked of every chain, where the narrowest lcore or limit is "
        "full; a chain by itself may carry more. "
    ) * fills
    for chain in plan.chains:
        for i, s in enumerate(chain.segments):
            first = i == 0
            cells: tuple[Cell, ...] = (
                chain.chain if first else "",
                " + ".join(s.functions),
                f"{chain.server}, {s.place}" if len(plan.answer.problem.servers) > 1 else s.place,
                ",".join(map(str, s.cpus)),
                s.load,
                s.comes + (f" ({chain.port})" if first else ""),
                ",".join(map(str, s.vfs)) or None,
                *((chain.rate_pps if first else None,) if fills else ()),
                chain.carries_pps if first else None,
                chain.latency_us * 1e3 if first and chain.latency_us is not None else None,
                chain.within_us * 1e3 if first and chain.within_us else None,
            )
            rows.append(Row(cells))
    columns: tuple[Column | str, ...] = (
        Column("chain", "text"),
        Column("segment", "text"),
        Column("place", "text"),
        Column("lcores", "text"),
        Column("of each", "share"),
        Column("packets come", "text"),
        Column("virtual functions", "text", optional=True),
        *((Column("asked", "own-rate"),) if fills else ()),
        Column(rate, "own-rate"),
        Column("latency", "own-time"),
        Column("goal", "own-time", optional=True),
    )
    note = (
        f"{full}Latency is a typical packet's on lcores {plan.answer.problem.full / 100:g} % busy. "
        "Pool, tables and rings are on the node of the segment that uses them; the port's RETA "
        "spreads its 128 entries evenly over the queues of the first segment's lcores."
    )
    return Section("Chains", note, (Table(columns, tuple(rows)),))


def _why(plan: PlacementPlan) -> Section:
    problem = plan.answer.problem
    rows = tuple(
        Row((chain.chain, one.where, value_text(problem, one.value), _dearer(plan, one.value)))
        for chain in plan.chains
        for one in _nearest(chain)
    )
    columns = (
        Column("chain", "text"),
        Column("elsewhere", "text"),
        Column("would be", "text"),
        Column("against now", "text"),
    )
    note = f"Now: {value_text(problem, plan.answer.value)}. One chain is moved, all others stay."
    return Section("Why there: what the next best places cost", note, (Table(columns, rows),))


def _nearest(chain: SettledChain) -> list[NextBest]:
    known = sorted(chain.next_best, key=lambda one: (one.value is None, one.value or 0))
    return known[:_NEXT]


def _dearer(plan: PlacementPlan, value: int | None) -> str:
    if value is None:
        return NOT_KNOWN
    more = value / plan.answer.value - 1
    if plan.answer.problem.aim == "rate":  # values are loads: the lower the more is carried
        more = plan.answer.value / value - 1
    return "the same" if abs(more) < 5e-4 else f"{more:+.1%}"


def _limits(plan: PlacementPlan) -> Section:
    rows = tuple(Row((one.name, one.share)) for one in plan.limits)
    columns = (Column("what lcores share", "text"), Column("in use", "share"))
    return Section("Ports, memory, ways between sockets", "", (Table(columns, rows),))


def _proof(plan: PlacementPlan) -> Section:
    problem, bound = plan.answer.problem, plan.answer.certificate.bound
    text = (
        f"This one: {value_text(problem, plan.answer.value)}; the bound: "
        f"{value_text(problem, bound)}. No placement of this problem does better than the bound, "
        "at these costs. Gap "
        f"{percent(plan.answer.gap, 2)}, found in {plan.seconds:.1f} s. Placements in which a "
        "segment's replicas are in one last-level cache are what is compared, on "
        f"{plural(plan.threads, 'thread')} of each core."
    )
    return Section("Proof", "", (Text(text),))
