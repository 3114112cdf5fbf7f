# SPDX-License-Identifier: Apache-2.0
"""The list of commands: complete, within a terminal of 80 columns, and the README's as well."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headrace import cli
from headrace.cli._commands import FIRST, GROUPS, WIDTH, command_list, listed

README = Path(__file__).resolve().parents[3] / "README.md"


def test_every_command_is_listed_once() -> None:
    """A module of another kind has a name that begins with an underscore."""
    modules = [m.name for m in pkgutil.iter_modules(cli.__path__)]
    commands = [m for m in modules if not m.startswith("_") and not m.endswith("_test")]
    assert sorted(listed()) == sorted(commands)


def test_what_one_needs_first_is_on_top() -> None:
    assert list(FIRST) == listed()[:4] == ["run", "report", "explain", "doctor"]


def test_every_line_fits_a_terminal() -> None:
    assert [line for line in command_list().splitlines() if len(line) > WIDTH] == []


def test_the_readme_has_the_same_groups() -> None:
    section = README.read_text(encoding="utf-8").split("\n## Commands\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \*\*(\w+)\*\* \| (.*?) \|", section, re.MULTILINE)
    assert {title: re.findall(r"`(\w+)`", names) for title, names in rows} == {
        title: list(entries) for title, entries in GROUPS.items()
    }


def test_help_and_no_argument_print_the_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, status in ((["--help"], 0), ([], 2)):
        monkeypatch.setattr("sys.argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == status
        assert capsys.readouterr().out.strip() == command_list().strip()


def test_help_names_values_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No box that a narrow terminal breaks, and none of Python's types."""
    for command, option in (("run", "--wait NUMBER"), ("provision", "--server TEXT")):
        monkeypatch.setattr("sys.argv", ["headrace", command, "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr().out
        assert ended.value.code == 0 and f"\n  {option}  " in told
        assert re.findall(r"<\w+[^>]*>|[╭│╰]", told) == []
        assert [line for line in told.splitlines() if len(line) > WIDTH] == []


def helps(command: Any, above: Any, name: str) -> Iterator[str]:
    """What `--help` prints for a command and for those within it."""
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    yield context.get_help()
    for inner, one in getattr(command, "commands", {}).items():
        yield from helps(one, context, inner)


def test_every_help_is_whole_and_in_words() -> None:
    """Lists of commands say all of what each does; arguments are written as in the docs."""
    root = cli._worded(typer.main.get_command(cli.build(listed())))
    context = root.make_context("headrace", [], resilient_parsing=True)
    told = [text for name, one in root.commands.items() for text in helps(one, context, name)]
    assert len(told) > len(listed())
    worse = r"<\w+[^>]*>|[{]\w+[}]|\[\[\w+\]\]|\bOf (?:a|each|the|traffic)\b"
    for text in told:
        usage = text.split("\n\n")[0]
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert [w for w in text.splitlines() if w.endswith("...") and w not in usage] == [], text
        assert re.findall(worse, text) + re.findall(r"[\[{][a-z]\w*", usage) == [], text


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "line", "slow"),
    [
        (["--help"], "Usage: headrace", {"pydantic", "numpy", "duckdb"}),
        (["run", "--help"], "write a bundle with a report", {"numpy", "duckdb"}),
    ],
)
def test_help_needs_no_library_that_takes_long(
    arguments: list[str], line: str, slow: set[str]
) -> None:
    """Beside a trial of another run a command gets one part in a hundred of a core."""
    code = (
        "import sys, atexit; from headrace.__main__ import main; "
        f"atexit.register(lambda: print({slow} & {{*sys.modules}})); main()"
    )
    done = python(code, *arguments)
    assert line in done.stdout and done.stdout.endswith("set()\n"), done.stdout + done.stderr


SLOW = {"numpy", "duckdb", "pyroute2", "asyncssh", "MLRsearch", "hdrh", "dpkt", "jinja2"}


@pytest.mark.parametrize("module", ["cli._study_run", "ground.own_chains"])
def test_a_check_needs_none_of_what_measures(module: str) -> None:
    """`run --check` loads these two: half as long as with the libraries that trials need."""
    done = python(f"import sys, headrace.{module}; print({SLOW} & {{*sys.modules}})")
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_folder_that_nobody_may_enter_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python tells whether a file is there by an error where it may not look."""

    def build(_names: list[str]) -> typer.Typer:
        raise PermissionError(13, "Permission denied", "/root/mine.yaml")

    monkeypatch.setattr(cli, "build", build)
    monkeypatch.setattr(sys, "argv", ["headrace", "run", "/root/mine.yaml"])
    with pytest.raises(SystemExit) as ended:
        cli._main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "headrace: /root/mine.yaml: Permission denied\n"


@pytest.mark.parametrize("where", ["__main__.slow_start.begin", "cli.importlib.import_module"])
def test_an_interrupt_while_it_starts(where: str) -> None:
    """Ctrl-C before and while a command's libraries are loaded."""
    code = (
        "import os, signal; from headrace import __main__, cli; "
        "__main__.slow_start.begin = lambda notice: None; "  # others may hold lcores meanwhile
        f"{where} = lambda name: os.kill(os.getpid(), signal.SIGINT); __main__.main()"
    )
    done = python(code, "run")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "headrace: interrupted\n")


@pytest.mark.parametrize(
    ("module", "command"),
    [("headrace.host.exclusive", "run"), ("headrace.cli", "report"), ("typer", "report")],
)
def test_an_interrupt_while_a_module_is_loaded(module: str, command: str) -> None:
    """From the entry point on: of what is loaded before Ctrl-C is caught there is a traceback."""
    code = (
        "import os, signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from headrace.__main__ import main\n"
        "main()\n"
    )
    done = python(code, command)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "headrace: interrupted\n")


def test_an_interrupt_in_a_callback_is_not_lost() -> None:
    """Python prints what such a function raises, and goes on."""
    code = (
        "import os, signal, time, weakref\n"
        "from headrace import __main__\n"
        "def command(name):\n"
        "    one = {1}\n"
        "    kept = weakref.ref(one, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "    del one\n"
        "    time.sleep(60)\n"
        "__main__.slow_start.begin = command\n"
        "__main__.main()\n"
    )
    done = python(code, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "headrace: interrupted\n")
