# SPDX-License-Identifier: Apache-2.0
"""Commands and options that there are not: one line on stderr, status 2."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from support.lab import COMMAND, environment, headrace

pytestmark = pytest.mark.parallel

CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown command": (("rum",), ("headrace: ", "'rum'", "'run'")),
    "unknown option": (("run", "--jsn", "x.yaml"), ("headrace run: ", "--jsn", "--json")),
    "missing argument": (
        ("diff", "a"),
        ("headrace diff: ", "missing argument 'B'", "headrace diff --help"),
    ),
    "missing value": (("run", "--out"), ("headrace run: ", "--out", "see headrace run --help")),
    "no such choice": (
        ("tune", "--protocol", "sctp"),
        ("'--protocol': 'sctp' is not one of 'tcp', 'udp'",),
    ),
    "out of range": (
        ("run", "--wait", "-1", "x.yaml"),
        ("'--wait': got '-1'; should be greater than or equal to 0",),
    ),
    "not a number": (
        ("chains", "nat", "--limit", "x"),
        ("'--limit': got 'x'; should be", "integer"),
    ),
    "no number at all": (("run", "--wait", "abc"), ("'--wait': got 'abc'; should be",)),
    "none to keep": (("campaign", "x.yaml", "--keep", "0"), ("'--keep': got '0'; should be",)),
    "share": (
        ("campaign", "quickstart", "--until", "0"),
        ("--until: got '0'; allowed: 0.1% to below 100%, as 5%",),
    ),
    "no port": (
        ("hosting", "capacity", "--ports", "0"),
        ("'--ports': got '0'; should be greater than or equal to 1",),
    ),
    "ports without end": (
        ("hosting", "capacity", "--ports", "99999999999999999999", "--sockets", "3"),
        ("'--ports': got '99999999999999999999'; should be less than or equal to 64",),
    ),
    "lcores without end": (
        ("hosting", "capacity", "--lcores", "99999999999999999999"),
        ("'--lcores': got '99999999999999999999'; should be less than or equal to 8192",),
    ),
    "sockets without end": (
        ("hosting", "capacity", "--sockets", "99999999999999999999"),
        ("'--sockets': got '99999999999999999999'; should be less than or equal to 64",),
    ),
    "too many arguments": (("explain", "a", "b"), ("headrace explain: ", "(b)")),
    "no figure": (
        ("run", "s2/figure-11"),
        ("SPEC: got 's2/figure-11'", "s2/figure-10, s2/figure-12", "s2 --figure N"),
    ),
    "no study": (("run", "quickstat"), ("SPEC: got 'quickstat'", "no such file", "quickstart")),
    "duration": (("collect", "--duration", "-1"), ("--duration: got -1.0", "above 0")),
    "no time at all": (("trace", "--duration", "0"), ("--duration: got 0.0", "above 0")),
    "time before": (("trace", "--duration", "-1"), ("--duration: got -1.0", "above 0")),
    "no number of seconds": (("trace", "--duration", "nan"), ("--duration: got nan", "above 0")),
    "no program": (
        ("collect", "--out", "samples", "--", "no-such-program"),
        ("COMMAND: got 'no-such-program'", "allowed: a program"),
    ),
    "no cgroup": (
        ("collect", "--cgroup", "no-such-cgroup", "--", "true"),
        ("--cgroup: got 'no-such-cgroup'", "no such cgroup"),
    ),
    "no bridge": (
        ("collect", "--bridge", "lo", "--", "true"),
        ("--bridge: got 'lo'", "no bridge"),
    ),
    "period": (("collect", "--period", "0"), ("--period: got 0.0", "0.01 s or more")),
    "two groups": (
        ("run", "s2", "--group", "nfs", "--group", "figure-12"),
        ("headrace run: --group: got 2 values; allowed: one; see headrace run --help",),
    ),
    "two values of a command's command": (
        ("hosting", "where", "a", "--seconds", "1", "--seconds=2"),
        ("headrace hosting where: --seconds: got 2 values; allowed: one",),
    ),
    "parameter": (("profile", "l2fwd", "--param", "zz=1"), ("--param: got 'zz'", "allowed: ")),
    "parameter's value": (
        ("profile", "acl", "--param", "default=perhaps"),
        ("profile of acl", "default", "'perhaps'", "permit"),
    ),
    "parameter's file": (
        ("profile", "acl", "--param", "rules_file=none.rules"),
        ("profile of acl", "rules_file: got 'none.rules'", "no such file"),
    ),
    "a paper's study": (
        ("study", "s2", "--figure", "12"),
        ("headrace study: no such command", "`headrace run STUDY [--figure N]"),
    ),
    "command of a command": (("server", "none"), ("headrace server: ", "'none'")),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_and_status_2(case: str, engine_binary: Path, tmp_path: Path) -> None:
    arguments, words = CASES[case]
    done = headrace(*arguments, folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    for word in words:
        assert word in line


def test_samples_are_a_folder(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    command = ("collect", "--out", "f", "--", "true")
    done = headrace(*command, folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--out: got 'f'; is no directory" in done.stderr


def test_samples_have_the_commands_status_and_are_kept(engine_binary: Path, tmp_path: Path) -> None:
    command = ("collect", "--", "sh", "-c", "kill -9 $$")
    done = headrace(*command, folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stderr) == (128 + 9, "")
    kept = (tmp_path / "samples" / "collectors.json").read_text()
    done = headrace(*command, folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "--out: got 'samples'; has samples already" in done.stderr
    assert (tmp_path / "samples" / "collectors.json").read_text() == kept


def test_a_plan_by_profiles_that_are_not_there_takes_nothing(
    engine_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither lcores nor memory: it says at once which files, and which commands make them."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    (tmp_path / "s.yaml").write_text("name: s\nchain: [l2fwd, 'null']\n")
    done = headrace("plan", "s.yaml", "--costs", "profiles", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    for words in ("profiles/l2fwd.json", "profiles/null.json", "`headrace profile l2fwd`"):
        assert words in line


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (None, ("s.yaml:3: chain[0].acl.rules_file: got 'my.rules'; no such file",)),
        ("@nonsense\n", ("s.yaml:3: chain[0].acl: ", 'my.rules:1: source "nonsense"')),
        ("# none\n", ("s.yaml:2: chain: of 1024 packets ", "none comes through the chain")),
    ],
    ids=["no file", "bad file", "denies all"],
)
def test_a_plan_of_bad_input_takes_nothing(
    rules: str | None, words: tuple[str, ...], engine_binary: Path, tmp_path: Path
) -> None:
    """Neither lcores, which may be held for an hour, nor memory; and the line is the spec's, not
    that of a layout which was written for a run."""
    (tmp_path / "s.yaml").write_text(
        "name: s\nchain:\n  - acl: {rules_file: my.rules, default: deny}\n"
        "deployment: {execution: pipeline, lcores: {chain: [700, 701]}}\n"
    )
    if rules is not None:
        (tmp_path / "my.rules").write_text(rules)
    done = headrace("plan", "s.yaml", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    for word in words:
        assert word in line
    assert not (tmp_path / "runs").exists()


def test_what_scripts_read(engine_binary: Path, tmp_path: Path) -> None:
    asked = (
        "hosting",
        "capacity",
        "--ports",
        "2",
        "--vfs",
        "63",
        "--lcores",
        "8",
        "--sockets",
        "1",
    )
    told = headrace(*asked, folder=tmp_path, engine=engine_binary)
    answer = json.loads(headrace(*asked, "--json", folder=tmp_path, engine=engine_binary).stdout)
    assert told.stdout.splitlines()[0] == f"{answer['vnfs']} VNFs"
    assert [line.strip() for line in told.stdout.splitlines()[1:]] == answer["because"]
    assert answer["server"]["lcores"] == [8]
    done = headrace("clean", "--json", folder=tmp_path, engine=engine_binary)
    assert isinstance(json.loads(done.stdout)["done"], list)


@pytest.mark.parametrize("command", ["", "server", "bench"])
def test_without_arguments_the_commands_are_listed(
    command: str, engine_binary: Path, tmp_path: Path
) -> None:
    done = headrace(*command.split(), folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "Usage: headrace" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("columns", ["", "60", "80"])
def test_names_that_have_to_be_typed_are_never_cut(
    columns: str, engine_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    done = headrace("nf", "nat", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0
    assert "static[].inside_port" in done.stdout
    assert "…" not in done.stdout
    assert columns or "endpoint-dependent or endpoint-independent" in done.stdout


@pytest.mark.parametrize("asked", ["nf", "nf --json", "--help", "doctor"])
def test_a_closed_pipe_ends_a_command(engine_binary: Path, tmp_path: Path, asked: str) -> None:
    """`headrace ... | head`: no traceback, and the status of a program that SIGPIPE ends."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{COMMAND}' {asked} | true"],
        cwd=tmp_path, env=environment(tmp_path, engine_binary), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_check_looks_at_what_it_would_make_too(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nchain: [l2fwd]\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    for out, words in (("there", "exists already"), ("file/b", "is not a directory")):
        asked = ("run", "--check", "a.yaml", "--out", out)
        done = headrace(*asked, folder=tmp_path, engine=engine_binary)
        assert done.returncode == 2 and f"{out}: " in done.stderr and words in done.stderr
    nowhere = headrace(
        "run", "--check", "a.yaml", "--live", "192.0.2.1:80", folder=tmp_path, engine=engine_binary
    )
    assert nowhere.returncode == 2 and "--live: got '192.0.2.1:80'" in nowhere.stderr
    asked = ("run", "--check", "a.yaml", "--out", "new/b")
    assert headrace(*asked, folder=tmp_path, engine=engine_binary).returncode == 0
    assert not (tmp_path / "new").exists()
