# SPDX-License-Identifier: Apache-2.0
"""`headrace plan --server`: chains of a study placed on a described server. Nothing is run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import yaml

from headrace.cli._console import print_json, stdout
from headrace.engine.describe import describe
from headrace.engine.passage import NOTHING
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.dry import TriedChains
from headrace.host.consoles import Terminal
from headrace.host.programs import find_engine
from headrace.host.store import save, server_given
from headrace.layout import check_placement
from headrace.profile.chain_parts import in_parts
from headrace.profile.hosted_placeable import HostedPlaceable
from headrace.profile.placeable import Placeable, PlacementWish
from headrace.profile.settled import SettledPlacement
from headrace.report.html import write as write_page
from headrace.report.placed import document as placed_document
from headrace.report.terminal import show
from headrace.spec.document import Document
from headrace.spec.placement import PlacementAim, PlacementAnswer, PlacementPlan
from headrace.spec.server_file import with_costs
from headrace.spec.study import Experiment, expand

_SERVERS_MAX = 64


@dataclass(frozen=True)
class PlacingOptions:
    """Options as they are given on the command line."""

    server: str
    servers: int
    aim: str | None
    busy: str
    seconds: float
    out: Path | None
    proof: Path | None
    html: Path | None
    as_json: bool


def place(doc: Document, options: PlacingOptions) -> PlacementPlan:
    from headrace.layout.provable import Placing  # a large library

    file = server_given(doc, options.server)
    server, home = with_costs(file)
    wish = PlacementWish(
        _aim(options.aim), share_of("--busy", options.busy), _count(options.servers)
    )
    experiments = in_parts(one_of_each(doc), doc)
    placeable = kind_of_placeable(doc, experiments)(doc, experiments, server, home, wish)
    began = time.monotonic()
    answer = Placing(placeable.problem(), options.seconds, progress()).answer()
    taken = time.monotonic() - began
    proof = options.proof
    if proof is not None:
        save(proof, answer)
    settled = SettledPlacement(placeable, answer)
    plan = settled.plan(taken, _checked(answer))
    if options.out is not None:
        chosen = settled.spec(file, describe(find_engine()))
        try:
            options.out.write_text(yaml.safe_dump(chosen, sort_keys=False), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"--out {options.out}: {error.strerror}") from None
    _show(plan, options)
    return plan


def kind_of_placeable(doc: Document, experiments: Sequence[Experiment]) -> type[Placeable]:
    """By where VNFs are hosted."""
    kinds = {one.study.deployment.hosting.kind for one in experiments}
    if kinds == {"inline"}:
        return Placeable
    if kinds <= {"process", "container", "vm"}:
        return HostedPlaceable
    named = ", ".join(sorted(kinds))
    raise doc.error(
        ("deployment", "hosting"),
        f"{named}: cannot be placed; allowed: inline, process, container, vm",
    )


def progress() -> Callable[[str], None]:
    console = Terminal(stderr=True, highlight=False, soft_wrap=True)
    return lambda text: console.print(text, markup=False)


def _show(plan: PlacementPlan, options: PlacingOptions) -> None:
    shown = placed_document(plan)
    if options.html is not None:
        write_page(shown, options.html)
    if options.as_json:
        print_json(plan)
        return
    show(shown, stdout())


def _aim(given: str | None) -> PlacementAim:
    for aim in get_args(PlacementAim):
        if aim == (given or "rate"):
            return aim  # type: ignore[no-any-return]
    raise bad_value("--aim", given, allowed=", ".join(get_args(PlacementAim)) + " with --server")


def share_of(option: str, given: str, example: str = "80%") -> float:
    number = given.removesuffix("%")
    try:
        share = float(number) / (100 if number != given else 1)
    except ValueError:
        share = 0.0
    if not 0.001 <= share < 1:
        raise bad_value(option, given, allowed=f"0.1% to below 100%, as {example}")
    return share


def _count(given: int) -> int:
    if not 1 <= given <= _SERVERS_MAX:
        raise bad_value("--servers", given, allowed=f"1..{_SERVERS_MAX}")
    return given


def one_of_each(doc: Document) -> list[Experiment]:
    """The first execution and frame of each chain: how they are cut is what is asked here."""
    if isinstance(doc.data, dict) and doc.data.get("sweep"):
        raise doc.error(("sweep",), "a placement is of one workload; allowed: no sweep")
    chosen: dict[str, Experiment] = {}
    for one in expand(doc):
        earlier = chosen.setdefault(one.chain, one)
        if earlier.workload_name != one.workload_name:
            raise doc.error(
                ("workload",), "has several frames or kinds of traffic; allowed with --server: one"
            )
    for one in chosen.values():
        if not one.nodes:
            raise doc.error(("chain",), "is empty; allowed: at least one function to place")
    _try(doc, list(chosen.values()))
    return list(chosen.values())


def _try(doc: Document, experiments: Sequence[Experiment]) -> None:
    """What functions are told is held against the engine's own parser, and some packets are sent
    through each chain: costs are of packets that come through."""
    tried, description, say = TriedChains(), describe(find_engine()), progress()
    for one in experiments:
        tell_notes(doc, one.chain, tried.notes(one, doc, description), say)


def tell_notes(doc: Document, chain: str, notes: Sequence[str], say: Callable[[str], None]) -> None:
    """What became of packets that were tried; a chain that lets nothing out has no plan."""
    for note in notes:
        if note.endswith(NOTHING):
            raise doc.error(("chains", chain) if "chains" in doc.data else ("chain",), note)
        say(f"note: chain {chain}: {note}")


def _checked(answer: PlacementAnswer) -> str:
    """What the checker says, a program by itself."""
    program = Path(check_placement.__file__)
    ended = subprocess.run(
        [sys.executable, "-I", str(program)],
        input=answer.model_dump_json(),
        capture_output=True,
        text=True,
    )
    if ended.returncode != 0:
        said_so = (ended.stdout or ended.stderr).strip().splitlines()
        raise HeadraceError(f"plan: the proof does not hold: {said_so[-1] if said_so else ''}")
    return f"{program.name} accepts it"
