# SPDX-License-Identifier: Apache-2.0
"""The command line. Each module of this package is a command of its name: a function of that name,
or a typer `app` for a command with commands of its own. `_commands` lists them: nothing else is
needed to add one."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from types import ModuleType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

import headrace
from headrace.cli._commands import command_list, listed
from headrace.cli._live import with_address
from headrace.errors import EXIT_BAD_INPUT, EXIT_FAILURE, EXIT_INTERRUPTED, HeadraceError, shown
from headrace.host import interrupts
from headrace.host.consoles import Terminal

# click's, which some versions of typer bring along under another name.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # whatever is written when there is no room
_VALUES = {
    "path": "PATH", "Path": "PATH", "str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER",
    "float range": "NUMBER",
}  # fmt: skip
_COMPLETING = "_HEADRACE_COMPLETE"  # set by the shell that asks for completions


class _Commands(TyperGroup):
    """Its help is the list that is grouped by what a user wants."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_list())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Deploy, drive, measure and explain chains of network functions."""


def build(wanted: list[str]) -> typer.Typer:
    """An app of these commands: loading all of them to run one would take a second."""
    app = typer.Typer(
        cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, callback=_root,
        rich_markup_mode=None,
    )  # fmt: skip
    for name in wanted:
        try:
            module = importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if wanted == [name] or str(error.name).startswith("headrace"):
                raise
            continue  # a library that only this command needs
        _add(app, name, module)
    return app


def _add(app: typer.Typer, name: str, module: ModuleType) -> None:
    inner = getattr(module, "app", None)
    if isinstance(inner, typer.Typer):
        app.add_typer(inner, name=name)
    else:
        app.command(name)(getattr(module, name))


def _worded(command: Any) -> Any:
    """Arguments and values by a word for what they are; the library has the names of Python's
    variables and types, and cuts what the commands of a group do."""
    for inner in getattr(command, "commands", {}).values():
        _worded(inner)
        if inner.short_help is None and inner.help:
            inner.short_help = " ".join(inner.help.split("\n\n")[0].split())
    for one in command.params:
        if one.param_type_name == "argument":
            _argument(one)
        elif one.metavar is None and not one.is_flag:
            kind = one.display_type(None).strip("<>").removeprefix("list[").removesuffix("]")
            one.metavar = _VALUES.get(kind, kind)
    return _each_once(command)


def _each_once(command: Any) -> Any:
    """An option of one value that is given twice is refused: the library takes the last without a
    word."""
    make_parser = command.make_parser

    def checked(ctx: Any) -> Any:
        parser = make_parser(ctx)
        parse_args = parser.parse_args

        def parse(args: list[str]) -> Any:
            values, rest, order = parse_args(args)
            for one in dict.fromkeys(order):
                single = one.param_type_name == "option" and not (one.multiple or one.is_flag)
                if single and (times := order.count(one)) > 1:
                    words = f"{one.opts[0]}: got {times} values; allowed: one"
                    raise _UsageError(words, ctx)
            return values, rest, order

        parser.parse_args = parse
        return parser

    command.make_parser = checked
    return command


def _argument(one: Any) -> None:
    """`SPEC`, `[SPEC]` where it may be left out, `SPEC...` for several."""
    name = one.metavar or one.name.upper().replace("_", "-")
    if one.nargs != 1 and not name.endswith("..."):
        name += "..."
    usage = name if one.required else f"[{name}]"
    one.metavar = name
    one.display_type_rich = lambda ctx: None  # its name says it
    one.get_usage_pieces = lambda ctx: [usage]


def main() -> NoReturn:
    """The console script: errors become one message and an exit status, never a traceback."""
    interrupts.catch()
    try:
        _main()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer and rich make 1 of it
            # What is left has no reader; the status is as of a program that SIGPIPE ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(128 + signal.SIGPIPE)
        if ended.code == EXIT_INTERRUPTED and interrupts.received:
            interrupts.leave()
        raise


def _main() -> NoReturn:
    known = listed()
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        given = with_address(sys.argv[1:])
        command = _worded(typer.main.get_command(build(_needed(known, given))))
        status = command(given, standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        sys.exit(_usage(error))
    except typer.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        Terminal(stderr=True).print(f"headrace {first}: needs the Python module {error.name}")
        sys.exit(EXIT_FAILURE)
    except HeadraceError as error:
        Terminal(stderr=True, soft_wrap=True).print(
            f"headrace: {error}", markup=False, highlight=False
        )
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(EXIT_FAILURE)
    except OSError as error:
        shut = error.errno == errno.EACCES and error.filename
        if error.errno not in _DISK and not shut:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"headrace: {where}{os.strerror(error.errno or 0)}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT if shut else EXIT_FAILURE)
    except Exception:
        if interrupts.received:  # DuckDB, for one, makes an error of its own of an interrupt
            sys.exit(EXIT_INTERRUPTED)
        raise
    sys.exit(status or 0)


def _needed(known: list[str], arguments: list[str]) -> list[str]:
    """The commands to load: the one that is called, none to list them, all to say what is meant."""
    if arguments and arguments[0] in known:
        return arguments[:1]
    listing = not arguments or arguments[0] in ("--help", "--version")
    return [] if listing and _COMPLETING not in os.environ else known


# Commands that became a study's: what takes their place.
_MOVED: dict[tuple[str, ...], str] = {
    (
        "hosting",
        "chaos",
    ): "`headrace run` of a study with `measure: {chaos: {...}}`",
    ("hosting", "study"): "`headrace run` of a study with `groups`",
    ("study",): "`headrace run STUDY [--figure N] [--on SERVER]`",
}


def _usage(error: Any) -> int:
    """Typer would draw a box of five lines around it."""
    called = " ".join(["headrace", *(name for name in sys.argv[1:2] if name in listed())])
    command = error.ctx.command_path if error.ctx is not None else called
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(text)
    else:
        for asked in (tuple(sys.argv[1:3]), tuple(sys.argv[1:2])):
            if asked in _MOVED:
                called = f"headrace {' '.join(asked)}"
                print(f"{called}: no such command; allowed: {_MOVED[asked]}", file=sys.stderr)
                return EXIT_BAD_INPUT
        words = _with_value(text[:1].lower() + text[1:].rstrip("."), error.__cause__)
        print(f"{command}: {words}; see {command} --help", file=sys.stderr)
    return EXIT_BAD_INPUT


def _with_value(text: str, cause: Any) -> str:
    """Versions of typer that check by pydantic leave out what was given."""
    if not hasattr(cause, "errors"):
        return text
    given = shown(cause.errors()[0]["input"])
    place, _, problem = text.partition(": ")
    problem = problem.removeprefix("Value error, ").removeprefix("Input ")
    if given in problem:
        return f"{place}: {problem}"
    return f"{place}: got {given}; {problem[:1].lower()}{problem[1:]}"
