# SPDX-License-Identifier: Apache-2.0
"""What became of the papers' claims, for docs/papers.md: keeps it in docs/claims.json, and writes
the tables from there.

    scripts/claims_page.py BUNDLE...     of `headrace run s1 --on ...` and the like, or measured
    scripts/claims_page.py --predict FOLDER    runs them all on the papers' servers, bundles there
    scripts/claims_page.py               the page alone, from what is kept
    scripts/claims_page.py --check       whether the page is what is kept and the studies say, and
                                         whether each contradicted claim has a paragraph
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.analyse.claims import claimed_text, measured_text, names_point, run_claims
from headrace.analyse.grounds import PREDICTED, GroundResults
from headrace.cli._groups import described_machine
from headrace.host.programs import shipped
from headrace.record.bundle import Bundle
from headrace.record.claim import JudgedClaim
from headrace.spec.claim import Claim
from headrace.spec.document import Document
from headrace.spec.folder import load_folder
from headrace.spec.points import points
from headrace.spec.server_file import read_server
from headrace.spec.study import Study, read

REPO = Path(__file__).resolve().parents[1]
KEPT, PAGE = REPO / "docs/claims.json", REPO / "docs/papers.md"
BEGIN, END = "<!-- claims: by scripts/claims_page.py -->\n", "<!-- claims: end -->\n"
SERVERS = {
    "s1": "xeon-e5-2650", "s2": "xeon-gold-5118", "s3": "xeon-platinum-8168",
    "s4": "xeon-e5-2650v4-smt", "s5": "xeon-e5-2650v4",
}  # fmt: skip
GROUNDS = (PREDICTED, "measured")
NOT_COMPARABLE, NOT_RUN = "not-comparable", "not-run"
UNASKED = "No row answers it."  # and no point of it was skipped
# What is behind a contradicted claim, the first word of its `differs`.
REASONS = {
    "Set-up": "the paper's set-up, of which the study has no part",
    "Functions": "headrace's functions, which are not the paper's",
    "Model": "what the model does not know",
}
COUNTED = {"VNFs", "graphs", "lines"}  # units of numbers that are right or wrong

Kept = dict[str, dict[str, dict[str, Any]]]  # study, ground, then claims by name


def keep(bundles: list[Path]) -> None:
    kept: Kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for path in bundles:
        bundle = Bundle(path)
        of = GroundResults(bundle, bundle.claims)
        study = kept.setdefault(str(bundle.spec_data["name"]), {}).setdefault(of.ground, {})
        there = of.where if of.ground == PREDICTED else "2 virtual CPUs of a shared server"
        for one in run_claims(of.claims):
            row = {"value": measured_text(one), "verdict": one.verdict, "why": one.why, "on": there}
            # A run of another figure says nothing of it; one that could not have its points does.
            if one.why != UNASKED or one.name not in study:
                study[one.name] = row
    write(kept)


def write(kept: Kept) -> None:
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def predicted(folder: Path) -> Iterator[Path]:
    """A bundle of each paper's whole study, on the server of that paper; of one without a point
    that can be predicted its claims are kept as they are answered."""
    headrace = Path(sys.executable).with_name("headrace")
    for study, server in SERVERS.items():
        if why := unpredicted(study):
            keep_unpredicted(study, why)
            continue
        command = [str(headrace), "run", study, "--on", server, "--out", str(folder / study)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield folder / study


def unpredicted(study: str) -> dict[str, str]:
    """Why none of the points can be predicted, by their names; empty: some can."""
    machine = described_machine(read_server(shipped("servers") / f"{SERVERS[study]}.yaml")[1])
    every = {one.name: one.skipped for one in points(of_paper(study), machine)}
    return {} if None in every.values() else {name: str(why) for name, why in every.items()}


def keep_unpredicted(study: str, why: dict[str, str]) -> None:
    kept: Kept = json.loads(KEPT.read_text())
    rows = kept.setdefault(study, {})[PREDICTED] = {}
    for name, claim in claims_of(study).items():
        never = [need.never for need in claim.needs if need.never]
        own = [text for point, text in why.items() if f"'{point}'" in claim.query]
        alike = [text for point, text in why.items() if names_point(claim.query, point)]
        reason = (never or own or alike or list(why.values()))[0]
        answer = f"It {reason}." if never else f"No row answers it, as each point {reason}."
        rows[name] = {"value": "nothing", "verdict": NOT_COMPARABLE, "why": answer,
                      "on": SERVERS[study]}  # fmt: skip
    write(kept)


@functools.cache
def of_paper(study: str) -> Document:
    return load_folder(shipped("studies") / study)


@functools.cache
def study_of(study: str) -> Study:
    return read(of_paper(study))


def claims_of(study: str) -> dict[str, Claim]:
    return study_of(study).claims


def sentences_of(study: str) -> dict[str, int]:
    """How many numbers each of the paper's sentences has that the study holds results against."""
    numbers: dict[str, set[str]] = {}
    for group in study_of(study).groups.values():
        for one in group.published:
            numbers.setdefault(one.claim, set()).update(_numbers(one.value))
    return {name: len(those) for name, those in numbers.items()}


def _numbers(value: object) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _numbers(one)
    elif not isinstance(value, bool):
        yield from re.findall(r"\d+(?:\.\d+)?", str(value))


def page(kept: Kept) -> str:
    return "\n".join((_whole(kept), *(_section(one, kept.get(one, {})) for one in SERVERS)))


def _verdict(rows: dict[str, dict[str, Any]], name: str) -> str:
    return str(rows.get(name, {}).get("verdict", NOT_RUN))


def _whole(kept: Kept) -> str:
    lines = [
        "| ground | claims | confirmed | contradicted | not comparable | not run |",
        "|---|---|---|---|---|---|",
    ]
    verdicts = ("confirmed", "contradicted", NOT_COMPARABLE, NOT_RUN)
    for ground in GROUNDS:
        counts = Counter(
            _verdict(kept.get(study, {}).get(ground, {}), name)
            for study in SERVERS for name in claims_of(study)
        )  # fmt: skip
        each = (str(counts[verdict]) for verdict in verdicts)
        lines.append(f"| {ground} | {counts.total()} | {' | '.join(each)} |")
    lines += [
        "",
        "| paper | sentences | numbers | claims | confirmed | contradicted | not comparable |",
        "|---|---|---|---|---|---|---|",
    ]
    for study in SERVERS:
        rows, sentences = kept.get(study, {}).get(PREDICTED, {}), sentences_of(study)
        counts = Counter(_verdict(rows, name) for name in claims_of(study))
        each = (str(counts[verdict]) for verdict in verdicts[:3])
        paper = of_paper(study).data["paper"].split(",")[0]
        lines.append(
            f"| {paper} | {len(sentences)} | {sum(sentences.values())} | {counts.total()} | "
            f"{' | '.join(each)} |"
        )
    own = sum(one.published is None for study in SERVERS for one in claims_of(study).values())
    behind = Counter(
        _reason(claims_of(study)[name])
        for study in SERVERS for name in _contradicted(study, kept.get(study, {}))
    )  # fmt: skip
    why = "; ".join(f"{behind[word]} {text}" for word, text in REASONS.items())
    return "\n".join((
        *lines, "", f"{own} of them are headrace's own and no paper's (\"own\").", "",
        f"Behind the contradicted ones is: {why}.", "",
    ))  # fmt: skip


def _section(study: str, grounds: dict[str, dict[str, Any]]) -> str:
    claims, server = claims_of(study), SERVERS[study]
    lines = [f"## {of_paper(study).data['paper']}", ""]
    command = f"headrace run {study} --on {server} --claims"
    lines += [f"`{command}`; measured: `headrace run {study} --quick --claims`.", ""]
    lines += ["| claim | published | predicted | measured |", "|---|---|---|---|"]
    for name, claim in claims.items():
        cells = [f"`{name}`: {claim.text.rstrip('.')}", _claimed(name, claim)]
        cells += [_cell(grounds.get(ground, {}).get(name)) for ground in GROUNDS]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    reasons: dict[str, list[str]] = {}
    for name in _contradicted(study, grounds):
        if why := claims[name].differs:
            reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        lines += ["", f"{', '.join(f'`{name}`' for name in names)}: {why}"]
    return "\n".join((*lines, ""))


def _contradicted(study: str, grounds: dict[str, dict[str, Any]]) -> list[str]:
    """Claims that predictions for the paper's own server contradict."""
    predicted = grounds.get(PREDICTED, {})
    return [
        name
        for name in claims_of(study)
        if predicted.get(name, {}).get("on") == SERVERS[study]
        and _verdict(predicted, name) == "contradicted"
    ]


def _reason(claim: Claim) -> str:
    return (claim.differs or "").split(":")[0]


def unexplained(kept: Kept) -> list[str]:
    """Contradicted claims without a paragraph that says why: `differs` of the study, which begins
    with what is behind it."""
    return [
        f"{study}: {name}"
        for study in SERVERS
        for name in _contradicted(study, kept.get(study, {}))
        if _reason(claims_of(study)[name]) not in REASONS
    ]


def never_confirmed() -> list[str]:
    """Claims of a measured number that nothing but this very number would confirm."""
    return [
        f"{study}: {name}"
        for study in SERVERS
        for name, one in claims_of(study).items()
        if isinstance(one.published, float) and not one.tolerance and one.published
        and one.unit not in COUNTED
    ]  # fmt: skip


def _claimed(name: str, claim: Claim) -> str:
    one = JudgedClaim(
        name=name, text=claim.text, paper=None, claimed=claim.value, query=claim.query,
        published=claim.published is not None, tolerance=claim.tolerance, unit=claim.unit,
        measured=None, verdict=NOT_COMPARABLE, why=None,
    )  # fmt: skip
    return claimed_text(one) + ("" if one.published else " (own)")


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    if row["verdict"] == NOT_COMPARABLE:
        value = "" if row["value"] == "nothing" else f"{row['value']}; "
        return f"{value}not comparable: {str(row['why']).rstrip('.')}"
    return f"{row['value']}: **{row['verdict']}**"


def written() -> str:
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n" + page(json.loads(KEPT.read_text())) + text[end:]


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        problems = [
            f"{one} is contradicted; the claim's `differs` has to say why: {', '.join(REASONS)}"
            for one in unexplained(json.loads(KEPT.read_text()))
        ]
        problems += [f"{one} is a number without a `tolerance`" for one in never_confirmed()]
        if written() != PAGE.read_text():
            problems.append(f"{PAGE.name} is not as {KEPT.name} and the studies: run this script")
        print("\n".join(problems), end="\n" if problems else "")
        return 1 if problems else 0
    if arguments[:1] == ["--predict"]:
        if len(arguments) != 2 or Path(arguments[1]).exists():
            print("--predict: allowed: one folder, which is not there yet")
            return 2
        keep(list(predicted(Path(arguments[1]))))
    elif arguments:
        keep([Path(one) for one in arguments])
    PAGE.write_text(written())
    print(_whole(json.loads(KEPT.read_text())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
