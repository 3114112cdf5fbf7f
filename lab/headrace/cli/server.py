# SPDX-License-Identifier: Apache-2.0
"""headrace server: what this server consists of, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from headrace.cli._console import print_json, stdout
from headrace.cli.run import Wait
from headrace.errors import BadInput, bad_value
from headrace.host import store
from headrace.host.consoles import Terminal
from headrace.host.exclusive import WAIT_S
from headrace.host.server import detect as find
from headrace.profile.calibrate import calibrate as run_calibration
from headrace.profile.described import compact, describe_server
from headrace.record.bundle import Bundle
from headrace.report.calibration import document as calibration_document
from headrace.report.html import write
from headrace.report.server import document as server_document
from headrace.report.terminal import show
from headrace.spec.described import DescribedServer
from headrace.spec.server_file import read_server

ROUNDS_MAX = 20

app = typer.Typer(no_args_is_help=True, help="What this server consists of, and what it costs.")


@app.callback()
def server() -> None:
    """What this server consists of, and what it costs."""


@app.command()
def detect(
    as_json: Annotated[bool, typer.Option("--json", help="Print the description.")] = False,
) -> None:
    """Sockets, NUMA nodes, cores, caches, memory, hugepages and NICs."""
    detected = find()
    if as_json:
        print_json(detected)
        return
    show(server_document(detected), stdout())


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="What the server is called in reports.")],
    about: Annotated[str, typer.Option(help="What a reader is told of it.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="The file; printed by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the description.")] = False,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--runs", help="Bundles of runs here, that costs are taken from instead."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", help="With --runs: the described server that costs start from."),
    ] = None,
) -> None:
    """Write this server, as calibrated and profiled, for `headrace run --on FILE` anywhere."""
    if (runs is None) != (start is None):
        raise BadInput("--runs and --start: allowed: both, or neither")
    if runs and start:
        described = _of_runs(name, about, runs, start)
    else:
        described = describe_server(name, about)
    if as_json:
        print_json(described)
    data = described.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    text = "# SPDX-License-Identifier: Apache-2.0\n" + yaml.safe_dump(
        compact(data), sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )
    if out is None and not as_json:
        stdout().print(text, markup=False, highlight=False, soft_wrap=True)
    if out is None:
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise bad_value("--out", str(out), problem=f"{error.strerror}; a file") from None


def _of_runs(name: str, about: str, runs: list[Path], start: str) -> DescribedServer:
    """What the runs do not tell is as in the description that is started from."""
    from headrace.profile.run_costs import costs_of_runs

    file = store.server_alone(start, "--start")
    bundles = [Bundle(path) for path in runs]
    taken = costs_of_runs(name, about, find(), read_server(file)[1], bundles)
    say = Terminal(stderr=True, highlight=False).print
    say("\n".join(taken.told), markup=False)
    return taken.server


@app.command()
def calibrate(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds, 1 to 20.")] = 5,
    cpus: Annotated[
        str | None, typer.Option(help="CPUs to measure, as 0,1; all by default.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="The picture; beside the calibration by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The calibration file; in the data directory by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the calibration.")] = False,
    wait: Wait = WAIT_S,
) -> None:
    """Measure what memory, cores, rings and clocks of this server cost. Takes a minute or two."""
    if not 1 <= rounds <= ROUNDS_MAX:
        raise bad_value("--rounds", rounds, allowed=f"1..{ROUNDS_MAX}")
    target = out or store.calibration_file()
    say = Terminal(stderr=True, highlight=False).print
    calibrated = run_calibration(rounds, _cpus(cpus), say, wait)
    store.save(target, calibrated)
    page = html or target.with_suffix(".html")
    shown = calibration_document(calibrated)
    write(shown, page)
    if as_json:
        print_json(calibrated)
        return
    console = stdout()
    show(shown, console)
    console.print(f"\nCalibration: {target}\nPicture: {page}", markup=False)


def _cpus(given: str | None) -> list[int] | None:
    if given is None:
        return None
    parts = given.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise bad_value("--cpus", given, allowed="CPU numbers, as 0,1")
    return list(dict.fromkeys(int(part) for part in parts))
