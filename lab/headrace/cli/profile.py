# SPDX-License-Identifier: Apache-2.0
"""headrace profile: what a function costs here, over state, rules, frame size, burst and skew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from headrace.cli._console import print_json, stdout
from headrace.cli.report import finish_run
from headrace.engine.describe import Description, describe
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError, bad_value, unknown
from headrace.host import store
from headrace.host.consoles import Terminal
from headrace.host.programs import find_engine
from headrace.host.server import detect
from headrace.host.state import short_run
from headrace.measure.session import measuring
from headrace.profile import acl_tables, sweep
from headrace.profile.point import Bench, memory_mb
from headrace.profile.sweep import SWEEPS, WantedProfile
from headrace.report.html import write as write_page
from headrace.report.profile import document as profile_document
from headrace.report.terminal import show
from headrace.spec.calibration import Calibration
from headrace.spec.deployment import Deployment
from headrace.spec.profile import Profile

STATE_MAX = 10_000_000
_TABLES = "tables"
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6}


def profile(
    nf: Annotated[str, typer.Argument(help="The function, as `headrace nf` lists it.")],
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the function, as key=value (YAML).")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help=f"Sweeps, by commas, of: {', '.join(SWEEPS)}; all these by default. "
            f"Of {acl_tables.NF} {_TABLES}, too: rules whose tables grow beyond the caches."
        ),
    ] = None,
    states: Annotated[
        str | None, typer.Option(help="State entries, as 100,10k,1M; up to 10M.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="Trials per point.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.05, max=3600, help="Length of a trial.")] = 0.3,
    corun: Annotated[bool, typer.Option(help="Measure it beside a neighbour, too.")] = True,
    out: Annotated[
        Path | None, typer.Option(help="The profile; in the data directory by default.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="The page; beside the profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile.")] = False,
) -> None:
    """Cycles per packet of one function, its memory model, and what a neighbour does to it."""
    wanted = WantedProfile(
        nf=nf,
        params=_params(param or []),
        workload={},
        sweeps=_sweeps(only, nf),
        tables=_TABLES in _named(only),
        states=_states(states),
        corun=corun,
    )
    if not 1 <= repetitions <= 100:
        raise bad_value("--repetitions", repetitions, allowed="1..100")
    if not 0.05 <= seconds <= 60:
        raise bad_value("--seconds", seconds, allowed="0.05..60")
    console = Terminal(stderr=True, highlight=False, soft_wrap=True)  # progress
    profiled = _run(wanted, repetitions, seconds, console)
    target = out or store.profiles_folder() / f"{nf}.json"
    store.save(target, profiled)
    page = html or target.with_suffix(".html")
    shown = profile_document(profiled)
    write_page(shown, page)
    if as_json:
        print_json(profiled)
        return
    output = stdout()
    show(shown, output)
    output.print(f"\nProfile: {target}\nPage: {page}", markup=False)


def _run(wanted: WantedProfile, repetitions: int, seconds: float, console: Console) -> Profile:
    cpus = usable_cpus()
    if len(cpus) < 2:
        raise HeadraceError("profile: needs two CPUs, one for the traffic; this process has one")
    description = describe(find_engine())
    _check_names(description, wanted)  # before lcores are waited for, and memory is reserved
    with short_run() as state, state.folder("profile") as folder:
        sweep.check(wanted, description, folder)
    calibration = None
    if store.calibration_file().exists():
        calibration = store.load(store.calibration_file(), Calibration)
    else:
        console.print("no calibration, so no memory model: `headrace server calibrate` makes one")
    most_mb = max(memory_mb(wanted.states), acl_tables.MEMORY_MB if wanted.tables else 0)
    most = Deployment.model_validate({"memory_mb": most_mb})
    name = f"profile-{wanted.nf}"
    with measuring(name, lambda path, shown: finish_run(path, None)) as session:
        session.hold(cpus[:2])
        session.provide(most)
        bench = Bench(description, session, (cpus[0], cpus[1]), repetitions, seconds)
        profiled = sweep.profile(
            bench,
            wanted,
            detect(),
            calibration,
            lambda text: console.print(f"  {text}", markup=False),
        )
    finish_run(session.bundle.path, None)
    console.print(f"Bundle: {session.bundle.path}", markup=False)
    return profiled


def _check_names(description: Description, wanted: WantedProfile) -> None:
    if wanted.nf not in description.nfs:
        names = sorted(description.nfs)
        raise BadInput(
            f"profile: {unknown(wanted.nf, names, f'there is no function {wanted.nf!r}')}"
        )
    names = sorted(description.nfs[wanted.nf]["params"].get("properties", {}))
    for key in wanted.params:
        if key not in names:
            what = f"{wanted.nf} has no such parameter"
            raise BadInput(f"--param: got {key!r}; {unknown(key, names, what)}")


def _params(given: list[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise bad_value("--param", text, allowed="key=value, as flows=100000")
        try:
            params[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise bad_value("--param", text, allowed="a value in YAML") from None
    return params


def _named(only: str | None) -> tuple[str, ...]:
    return SWEEPS if only is None else tuple(part.strip() for part in only.split(","))


def _sweeps(only: str | None, nf: str) -> tuple[Any, ...]:
    known = (*SWEEPS, _TABLES) if nf == acl_tables.NF else SWEEPS
    for part in _named(only):
        if part not in known:
            raise bad_value("--only", part, allowed=", ".join(known))
    return tuple(part for part in _named(only) if part != _TABLES)


def _states(given: str | None) -> tuple[int, ...]:
    if given is None:
        return sweep.STATES
    states = []
    for part in given.split(","):
        match = re.fullmatch(r"(\d+)([km]?)", part.strip(), re.IGNORECASE)
        n = int(match[1]) * _SUFFIXES[match[2].lower()] if match else 0
        if not 1 <= n <= STATE_MAX:
            raise bad_value("--states", part, allowed=f"1..{STATE_MAX}, also as 10k or 1M")
        states.append(n)
    if not states:
        raise BadInput("--states: allowed: at least one number")
    return tuple(sorted(set(states)))
