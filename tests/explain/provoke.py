# SPDX-License-Identifier: Apache-2.0
"""Does `explain` name first what was provoked? `PYTHONPATH=tests python tests/explain/provoke.py`

Each condition is made ten times (`--runs`), and once as often nothing is: light traffic between two
namespaces, of which no shortage or loss may be said. Root; about ten minutes on a quiet machine,
which others' work would be blamed for otherwise. Exit status 1 if a condition is named
first in fewer than nine of ten runs.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headrace.analyse.diagnosis import Weight
from headrace.analyse.rule_evidence import parts
from headrace.analyse.rules import explain_parts

sys.path.insert(0, str(Path(__file__).resolve().parent))

from provoked import CONDITIONS, CannotProvoke, Condition, light_traffic, provoke

NOTHING = "nothing"


def first(condition: Condition, folder: Path) -> str:
    """The first rule named; of an unprovoked chain only what is graver than advice."""
    diagnoses = explain_parts(parts(provoke(condition, folder)))
    if condition.rule == NOTHING:
        diagnoses = [d for d in diagnoses if d.weight > Weight.ADVICE]
    if not diagnoses:
        return NOTHING
    foremost = diagnoses[0]
    return (
        foremost.rule
        if foremost.place.startswith(condition.place)
        else f"{foremost.rule} at {foremost.place}"
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--runs", type=int, default=10)
    p.add_argument("condition", nargs="*", help=", ".join([*CONDITIONS, NOTHING]))
    a = p.parse_args()
    known = {**CONDITIONS, NOTHING: Condition(NOTHING, light_traffic)}
    for name in a.condition:
        if name not in known:
            p.error(f"condition: {name!r}; allowed: {', '.join(known)}")
    failed = False
    for name in a.condition or known:
        rules: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                for run in range(a.runs):
                    rules[first(known[name], Path(folder) / str(run))] += 1
            except CannotProvoke as why:
                print(f"{name:24} not provoked: {why}", flush=True)
                continue
        hits = rules[known[name].rule]
        failed |= hits < math.ceil(0.9 * a.runs)
        others = ", ".join(f"{r} {n}" for r, n in rules.items() if r != known[name].rule)
        print(
            f"{name:24} {known[name].rule} first in {hits} of {a.runs}"
            f"{f'; else {others}' if others else ''}",
            flush=True,
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
