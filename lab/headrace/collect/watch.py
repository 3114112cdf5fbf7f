# SPDX-License-Identifier: Apache-2.0
"""All layers of a deployment watched while its trials run: the sampler and, if asked for, the
stack tracer, into one folder.

    with watching(study.collect, targets, bundle / "samples" / "001") as watch:
        with watch.trial(7):
            ...

`trials.json` there says when each trial ran, by the samples' own clock; a sample is taken at its
begin and at its end, so that what is counted between them is the trial's. `stack-001.json` is the
stack trace of trial 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from pydantic import RootModel

from headrace.collect import Collector, collectors
from headrace.collect.collector import Held, Targets, WatchedProcess
from headrace.collect.elsewhere import Elsewhere, TracesPackets
from headrace.collect.sampler import Sampler
from headrace.collect.stack.tracer import tracing
from headrace.errors import HeadraceError
from headrace.record.frozen import Record
from headrace.record.own import sample_record
from headrace.spec.collect import Collect

Traced = Callable[[Sequence[str]], AbstractContextManager[TracesPackets]]

STACK, STACK_ABSENT, TRIALS = "stack.json", "stack-absent.txt", "trials.json"


class Watched(Record):
    """A trial's time, on CLOCK_MONOTONIC: that of the samples at its ends."""

    trial: int
    begin_ns: int
    end_ns: int


class _Times(RootModel[tuple[Watched, ...]]):
    """Times as the file has them."""


def trial_times(folder: Path) -> tuple[Watched, ...]:
    """The trials' times in a folder of samples; none where no trial ended."""
    times = sample_record(folder, TRIALS, _Times)
    return () if times is None else times.root


def stack_file(trial: int | None = None) -> str:
    """The stack trace of a trial; None: of the whole time that was watched."""
    return STACK if trial is None else f"stack-{trial:03}.json"


class Watch:
    """What notes the trials. Without layers it does nothing."""

    def __init__(
        self, sampler: Sampler | None, folder: Path, trace: float = 0.0, tracing: Traced = tracing
    ) -> None:
        self._sampler, self._folder, self._trace = sampler, folder, trace
        self._tracing = tracing
        self._trials: list[Watched] = []

    @contextmanager
    def trial(self, number: int) -> Iterator[None]:
        if self._sampler is None:
            yield
            return
        with _traced(self._trace, self._folder, number, self._tracing):
            begin = self._sampler.now()
            yield
            self._sampler.now()
            end = self._sampler.last_ns
        self._trials.append(Watched(trial=number, begin_ns=begin, end_ns=end))
        written = _Times(tuple(self._trials)).model_dump_json()
        (self._folder / TRIALS).write_text(written + "\n")


@contextmanager
def watching(
    wanted: Collect,
    targets: Targets,
    folder: Path,
    *,
    each_trial: bool = False,
    elsewhere: Elsewhere | None = None,
) -> Iterator[Watch]:
    """`each_trial`: packets are traced in the trials that are noted, each by itself; else all the
    time. `elsewhere`: where the deployment is not on this machine."""
    if not wanted.layers:
        yield Watch(None, folder)
        return
    by = tracing if elsewhere is None else elsewhere.tracing
    chosen: Sequence[Collector]
    if elsewhere is None:
        chosen = collectors(targets, wanted.layers)
    else:
        chosen = elsewhere.collectors(wanted.layers)
    with Sampler(chosen, folder, wanted.period) as sampler:
        if each_trial:
            yield Watch(sampler, folder, wanted.trace, by)
            return
        with _traced(wanted.trace, folder, None, by):
            yield Watch(sampler, folder)


@contextmanager
def _traced(share: float, folder: Path, trial: int | None, by: Traced) -> Iterator[None]:
    """That packets cannot be traced is said in the folder, and ends no measurement."""
    if not share:
        yield
        return
    with ExitStack() as stack:
        try:
            options = ("--softirq", "--stats", "--buckets", "--sample", repr(share))
            tracer = stack.enter_context(by(options))
        except HeadraceError as why:
            (folder / STACK_ABSENT).write_text(f"{why}\n")
            yield
            return
        yield
        try:
            trace = tracer.stop()
        except HeadraceError as why:
            (folder / STACK_ABSENT).write_text(f"{why}\n")
            return
        (folder / stack_file(trial)).write_text(trace.model_dump_json(by_alias=True) + "\n")


def targets_of(
    pids: dict[str, int],
    bridges: dict[str, str] | None = None,
    ovs: Path | None = None,
    bridges_in: str | None = None,
    held: tuple[Held, ...] = (),
) -> Targets:
    """Containers are known by their first process: it, its namespace and its control group count.
    `bridges`: what the report calls each; `bridges_in`: the named namespace that they are in."""
    bridges = bridges or {}
    groups = {g: name for name, pid in pids.items() if (g := cgroup_of(pid)) is not None}
    return Targets(
        processes=tuple(WatchedProcess(name=name, pid=pid) for name, pid in pids.items()),
        cgroups=tuple(groups),
        labels=groups | bridges,
        bridges=tuple(bridges),
        bridges_in=bridges_in,
        ovs=ovs,
        held=held,
    )


def cgroup_of(pid: int) -> str | None:
    """Below the mount point: of the CPU's controller (v1), or the only hierarchy's (v2)."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    paths: dict[str, str] = {}
    for line in lines:
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = group
    path = paths.get("cpuacct") or paths.get("cpu") or paths.get("")
    return path if path and path != "/" else None
