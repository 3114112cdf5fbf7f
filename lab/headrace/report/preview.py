# SPDX-License-Identifier: Apache-2.0
"""What a spec would do: its experiments as resolved, where they would run, how long that takes."""

from __future__ import annotations

from pydantic import Field
from rich.console import Console

from headrace.analyse.units import plural
from headrace.record.frozen import Record
from headrace.record.text import duration


class PreviewedPoint(Record):
    """One experiment. `lcores` is empty where containers' CPUs decide."""

    chain: str
    execution: str
    workload: str
    lcores: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    predicted: bool = False  # for a described server, not measured


class Preview(Record):
    name: str
    experiments: tuple[PreviewedPoint, ...]
    repetitions: int
    notes: tuple[str, ...] = ()  # what is not one experiment's
    seconds: float | None  # None: nothing is known about how long it takes
    files: tuple[str, ...]
    runs: tuple[str, ...] = ()  # programs, images and machines that are started for it
    writes: tuple[str, ...] = ()  # files and sockets that its functions write to
    deploying: bool = False  # takes time that nobody knows, which `seconds` has not

    @property
    def heading(self) -> str:
        predicted = sum(one.predicted for one in self.experiments)
        counts = {"measurement": len(self.experiments) - predicted, "prediction": predicted}
        parts = [plural(n * self.repetitions, what) for what, n in counts.items() if n]
        text = f"{self.name}: {' and '.join(parts)}"
        if self.seconds is not None:
            text += f", about {duration(self.seconds)}"
        return f"{text}, and what deploying takes" if self.deploying else text

    @property
    def touched(self) -> tuple[str, ...]:
        """What a user should know before it runs."""
        kinds = {"runs": self.runs, "writes": self.writes}
        return tuple(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def show(preview: Preview, console: Console) -> None:
    console.print(preview.heading, markup=False)
    width = max(len(_title(one)) for one in preview.experiments)
    for one in preview.experiments:
        where = ", ".join(f"{name} {_cpus(cpus)}" for name, cpus in one.lcores.items())
        line = f"  {_title(one).ljust(width)}" + (f"  lcores: {where}" if where else "")
        console.print(line.rstrip(), markup=False)
    if preview.repetitions > 1:
        console.print(f"  each {preview.repetitions} times", markup=False)
    every = (*preview.notes, *(note for one in preview.experiments for note in one.notes))
    for note in dict.fromkeys(every):
        console.print(f"  note: {note}", markup=False)
    for line in preview.touched:
        console.print(f"  {line}", markup=False)
    if preview.files:
        console.print(f"  files read: {', '.join(preview.files)}", markup=False)
    console.print("The spec is valid. Nothing was run.", markup=False)


def _title(one: PreviewedPoint) -> str:
    execution = f"{one.execution} (predicted)" if one.predicted else one.execution
    return ", ".join(part for part in (one.chain, execution, one.workload) if part)


def _cpus(cpus: tuple[int, ...]) -> str:
    return "+".join(map(str, cpus))
