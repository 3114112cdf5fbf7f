# SPDX-License-Identifier: Apache-2.0
"""The command line of a study that measures a paper's tables and figures again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.cli._console import stdout
from headrace.engine.place import usable_cpus
from headrace.errors import BadInput, HeadraceError
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import Say
from headrace.report.document import Document, Section
from headrace.report.html import write
from headrace.report.terminal import show

Part = Callable[[Bench, list[int], Say], Section | tuple[Section, ...]]


def main(
    parts: Mapping[str, Part], title: str, subtitle: str, description: str, memory_mb: int
) -> int:
    """Measures the parts that are named, or all; the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--html", type=Path, help="write the page here")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a trial")
    parser.add_argument("--repetitions", type=int, default=3, help="trials per point")
    given = parser.parse_args()
    for part in given.parts:
        if part not in parts:
            parser.error(f"{part!r}: no such part; allowed: {', '.join(parts)}")
    if not 0.05 <= given.seconds <= 60 or not 1 <= given.repetitions <= 100:
        parser.error("allowed: --seconds 0.05..60, --repetitions 1..100")
    console = stdout(soft_wrap=True)

    def say(line: str) -> None:
        console.print(f"  {line}", markup=False)

    try:
        deployment = {"memory_mb": memory_mb}
        name = Path(sys.argv[0]).resolve().parent.name
        with studied.bench(name, given.repetitions, given.seconds, deployment, say) as bench:
            made = [parts[p](bench, usable_cpus(), say) for p in given.parts or parts]
        several = [one if isinstance(one, tuple) else (one,) for one in made]
        shown = Document(title, subtitle, sections=tuple(s for each in several for s in each))
        if given.html:
            write(shown, given.html)
    except HeadraceError as e:
        print(f"{parser.prog}: {e}", file=sys.stderr)
        return 2 if isinstance(e, BadInput) else 1
    show(shown, stdout())
    return 0
