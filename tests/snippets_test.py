# SPDX-License-Identifier: Apache-2.0
"""What README and docs tell the reader to type is right: specs are checked by the engine, commands
are known with all of their options, and what takes neither root nor lcores is run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from headrace.cli import build
from headrace.cli._commands import listed
from headrace.cli._live import with_address
from headrace.errors import BadInput

pytestmark = pytest.mark.parallel

REPO = Path(__file__).resolve().parents[1]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
# A reader is told so by a comment behind the command: `# root`, `# hardware: minutes`.
MARKED = re.compile(r"#.*\b(root|hardware|minutes?)\b")
# In front of a block that cannot be checked everywhere: `<!-- snippet: no spec -->`, or what it
# needs, whose last word the message of its check has to name then.
NOTED = re.compile(r"<!-- snippet: (.*?) -->\s*$")
# What a spec's own files hold, by the key that names them and the function.
FILES = {
    ("ids", "rules_file"): 'alert udp any any -> any any (msg:"x"; content:"x"; sid:1;)\n',
    ("dpi", "rules_file"): 'alert udp any any -> any any (msg:"x"; content:"x"; sid:1;)\n',
    (
        "acl",
        "rules_file",
    ): "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x11/0xFF\t0x0000/0x0000\n",
    ("l3fwd", "routes_file"): "0.0.0.0/0\n",
    # Rates over the clock, of packets of 1,000 B that take 300 cycles.
    ("fitted", "table"): "experiment,variant,x,metric,median,least,most,runs\n"
    + "".join(
        f"source_code_router,Vanilla,{mhz},{metric},{of},{of},{of},5\n"
        for mhz in range(1200, 3001, 200)
        for metric, of in (("PPS", mhz * 10_000 // 3), ("THROUGHPUT", mhz * 10_000 // 3 * 8000))
    ),
}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    name: str | None  # the file that the sentence before it names
    note: str  # "", `no spec`, `needs ...`

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPO)}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text, names = page.read_text(), []
        for match in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            ahead = text[: match.start()]
            before = NOTED.sub("", ahead).rstrip().split("\n\n")[-1]
            # A sentence may name the files of two blocks.
            names += re.findall(r"`([\w-]+\.(?:yaml|rules|txt|routes))`", before)
            own = [one for one in names if one.endswith(".yaml") == (match[1] == "yaml")]
            name = own[0] if own and match[1] in ("yaml", "text") else None
            names = [one for one in names if name and one != name]
            noted = NOTED.search(ahead)
            line = text.count("\n", 0, match.start()) + 2
            yield Block(page, line, match[1], match[2], name, noted[1] if noted else "")


BLOCKS = list(blocks())
SPECS = [b for b in BLOCKS if b.language == "yaml" and b.note != "no spec"]
COMMANDS = [
    pytest.param(block, line[2:], id=f"{block.place} {line[2:].split('#')[0].strip()}")
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
    if line.startswith("$ headrace ")
]


def whole(data: dict[str, Any]) -> dict[str, Any]:
    """A spec of which a page shows a part."""
    study = {"name": "part", **data}
    hosting = (study.get("deployment") or {}).get("hosting")
    offload = isinstance(hosting, dict) and hosting.get("kind") == "offload"
    fitted = "fitted" in (study.get("ground") or {})
    if not offload and not fitted and not {"chain", "chains", "graphs", "groups"} & set(study):
        study["chain"] = ["l2fwd"]
    return study


def write_files(folder: Path, value: Any, function: str = "") -> None:
    if isinstance(value, list):
        for one in value:
            write_files(folder, one, function)
    if isinstance(value, dict):
        for key, inner in value.items():
            if (content := FILES.get((value.get("nf", function), key))) and not (
                folder / inner
            ).exists():
                (folder / inner).write_text(content)
            write_files(folder, inner, value.get("nf", str(key)))


def pages_files(block: Block, folder: Path) -> None:
    """All files that the page shows, and the shipped studies."""
    for one in BLOCKS:
        if one.page == block.page and one.name and one.language in ("yaml", "text"):
            (folder / one.name).write_text(one.text)
    if not (folder / "studies").exists():
        (folder / "studies").symlink_to(REPO / "studies")


def call(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(build([arguments[0], "nf"]), list(arguments))
    if isinstance(done.exception, BadInput):
        return 2, str(done.exception)
    return done.exit_code, done.output


@pytest.mark.parametrize("block", SPECS, ids=lambda block: block.place)
def test_specs_are_right(
    block: Block, tmp_path: Path, engine_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages_files(block, tmp_path)
    data = yaml.safe_load(block.text)
    assert isinstance(data, dict), f"{block.place}: a mapping is wanted"
    study = whole(data)
    write_files(tmp_path, study)
    (tmp_path / "snippet.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    hosting = (study.get("deployment") or {}).get("hosting")
    offload = isinstance(hosting, dict) and hosting.get("kind") == "offload"
    service = offload and isinstance(hosting.get("vnfs"), dict)
    status, text = call("offload" if service else "run", "--check", "snippet.yaml")
    if block.note:
        assert status == 2 and block.note.split()[-1] in text, f"{block.place}: {text}"
        return
    assert status != 2, f"{block.place}: {text}"
    assert "nothing can be measured" not in text, f"{block.place}: {text}"


@pytest.mark.parametrize(("block", "command"), COMMANDS)
def test_commands_are_known(block: Block, command: str) -> None:
    """Command, options and number of arguments, as typer reads them; nothing is run."""
    words = with_address(shlex.split(command, comments=True))[1:]
    group: Any = typer.main.get_command(build(listed()))
    if words[0].startswith("-"):
        return  # of the list of commands
    context = group.make_context("headrace", words)
    name, inner, rest = group.resolve_command(context, words)
    while hasattr(inner, "commands"):
        name, inner, rest = inner.resolve_command(inner.make_context(name, rest), rest)
    inner.make_context(name, rest)


@pytest.mark.parametrize(("block", "command"), COMMANDS)
def test_what_needs_nothing_is_run(
    block: Block,
    command: str,
    tmp_path: Path,
    engine_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`run` by its --check; what the text does not mark and is quick, as it stands."""
    words = shlex.split(command, comments=True)[1:]
    monkeypatch.chdir(tmp_path)
    pages_files(block, tmp_path)
    for file in (one for one in words if one.endswith(".yaml") and (tmp_path / one).is_file()):
        if words[0] in ("run", "explain", "compare") and not file.startswith("studies/"):
            status, text = call("run", "--check", file)
            assert status == 0, text
    quick = words[0] in ("nf", "schema", "chains", "init") and "--pcap" not in words
    if quick and not MARKED.search(command):
        if words[0] == "init":
            shutil.rmtree(tmp_path / words[1], ignore_errors=True)
        status, text = call(*words)
        assert status == 0, text
