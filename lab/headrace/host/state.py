# SPDX-License-Identifier: Apache-2.0
"""What a run leaves on the machine while it runs, written down so that it can be undone.

Each run has a directory in the state directory: who owns it, its engine, the hugepages it added.
A run whose owner is gone (killed) is undone by `headrace clean`, which touches nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, unwritable
from headrace.host import hugepages, interrupts
from headrace.host.processes import Process, kill
from headrace.host.tree import remove_tree

_RUN = "run-"


def state_directories() -> list[Path]:
    """Where state may be: the second one also when a session has a runtime directory, since sudo
    and cron do not."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    candidates = [Path(runtime) / "headrace"] if runtime and Path(runtime).is_dir() else []
    return [*candidates, Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"]


def _own(directory: Path) -> bool:
    """Looks whose it is: in /tmp anybody could have made a directory of that name."""
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


class RunState:
    """The directory of one run, made when the run begins and removed when it ends."""

    def __init__(self) -> None:
        base = state_directories()[0]
        with _locked(base, make=True):
            try:
                self.path = Path(tempfile.mkdtemp(prefix=_RUN, dir=base))
            except OSError as error:
                raise unwritable(base, error) from None
            try:
                self.note("owner", Process.of(os.getpid()))
            except HeadraceError:
                remove_tree(self.path)
                raise

    def note(self, what: str, process: Process | None) -> None:
        if process is not None:
            _put(self.path / f"{what}.json", {"pid": process.pid, "started": process.started})

    def note_hugepages(self, path: Path, before: int, pages: int, done: bool) -> None:
        """Written before the pages are asked for, and again when they came: a kill in between must
        neither lose the count nor make us give back what we never got."""
        _put(
            self.path / "hugepages.json",
            {"path": str(path), "before": before, "pages": pages, "done": done},
        )

    def claim(self, kilobytes: int) -> None:
        """Hugepages that this run's engines will take: until they have, others must not."""
        _put(self.path / "claim.json", {"kilobytes": kilobytes})

    def forget(self, what: str) -> None:
        (self.path / f"{what}.json").unlink(missing_ok=True)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """A folder of the run for a part of it: it goes with the run where that is killed."""
        path = self.path / name
        try:
            path.mkdir()
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            yield path
        finally:
            remove_tree(path)

    def remove(self) -> None:
        """The run is over: give back what it added to the machine, then forget it."""
        with _alone(self.path):  # half removed it looks like one whose owner is gone
            _undo(self.path)
        _drop(self.path.parent)


@contextmanager
def run_state() -> Iterator[RunState]:
    """The state is there for as long as something runs. What runs that were killed had left is
    undone first; no signal breaks off what this one leaves."""
    interrupts.hold()
    try:
        state = RunState()
        try:
            interrupts.let_go()
            _tidy()
            yield state
        finally:
            interrupts.hold()
            state.remove()
    finally:
        interrupts.let_go()


@contextmanager
def short_run() -> Iterator[RunState]:
    """For what a program is asked: what a kill leaves of it is undone as a run's is. It waits for
    nothing, and undoes nobody else's."""
    state = RunState()
    try:
        yield state
    finally:
        state.remove()


def _tidy() -> None:
    try:
        done = clean()
    except HeadraceError as why:  # of a container's tool, say, which this run need not have
        done = [f"not all of it: {why}"]
    if done:
        text = "; ".join(done)
        print(f"headrace: a run that was killed had left something: {text}", file=sys.stderr)


def _put(path: Path, value: dict[str, Any]) -> None:
    write(path.with_suffix(".tmp"), json.dumps(value))
    path.with_suffix(".tmp").rename(path)


def write(path: Path, text: str) -> None:
    """A file of a run. State directories are small file systems in memory, and get full."""
    try:
        path.write_text(text)
    except OSError as error:
        raise unwritable(path, error) from None


def _get(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _process(path: Path) -> Process | None:
    value = _get(path)
    if isinstance(value.get("pid"), int) and isinstance(value.get("started"), int):
        return Process(value["pid"], value["started"])
    return None


def claimed_kb(own: RunState) -> int:
    """Hugepages that other runs were promised and whose engine does not have them yet."""
    open_kb = 0
    for base in filter(_own, state_directories()):
        for run in base.glob(f"{_RUN}*"):
            owner, claim = _process(run / "owner.json"), _get(run / "claim.json")
            if run == own.path or owner is None or not owner.alive():
                continue
            engine = _process(run / "engine.json")
            taken = hugepages.in_use_kb(engine.pid) if engine is not None else 0
            open_kb += max(0, int(claim.get("kilobytes", 0)) - taken)
    return open_kb


def clean() -> list[str]:
    """Undo the runs whose owner is gone. Says what was done; nothing to do is an empty list. One
    that cannot be undone does not keep the others from it."""
    done: list[str] = []
    failed: list[str] = []
    for base in state_directories():
        if not _own(base):
            continue
        for run in _over(base):
            with _alone(run) as ours:
                try:
                    done += _undo(run) if ours else []
                except Exception as why:
                    told = " ".join(str(why).split()) or type(why).__name__
                    failed.append(f"{run}: {told}")
        _drop(base)
    if failed:
        raise HeadraceError("; ".join([*done, *failed]))
    return done


def _over(base: Path) -> list[Path]:
    """Runs whose owner is gone."""
    with _locked(base) as there:
        runs = sorted(base.glob(f"{_RUN}*")) if there else []
        owners = ((run, _process(run / "owner.json")) for run in runs)
        return [run for run, owner in owners if owner is None or not owner.alive()]


def _drop(base: Path) -> None:
    with _locked(base) as there:
        if there and not any(base.iterdir()):
            base.rmdir()


@contextmanager
def _locked(base: Path, *, make: bool = False) -> Iterator[bool]:
    """Alone in a state directory, where runs begin and end: one whose owner is not written down yet
    looks as if it had none. False: it is not there."""
    while True:
        if make:
            _make(base)
        try:
            folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if make:
                continue  # removed by whoever was the last in it
            yield False
            return
        except OSError:
            raise _somebody_elses(base) from None
        try:
            if os.fstat(folder).st_uid != os.getuid():
                raise _somebody_elses(base)
            fcntl.flock(folder, fcntl.LOCK_EX)
            if _is(base, folder):
                yield True
                return
        finally:
            os.close(folder)


def _make(base: Path) -> None:
    try:
        base.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass
    except OSError as error:
        raise unwritable(base, error) from None


def _somebody_elses(base: Path) -> HeadraceError:
    return HeadraceError(f"{base}: belongs to somebody else; remove it or set XDG_RUNTIME_DIR")


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _alone(run: Path) -> Iterator[bool]:
    """Whether nobody else is undoing it: two would give back its hugepages twice."""
    try:
        folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False  # it is gone
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(folder)


def _undo(run: Path) -> list[str]:
    done = []
    engine = _process(run / "engine.json")
    if engine is not None and engine.alive():
        kill(engine)
        done.append(f"killed engine {engine.pid}")
    if (run / "resources.jsonl").exists():
        from headrace.host.ledger import undo  # netlink and containers: not for a start

        done += undo(run / "resources.jsonl")
    note = _get(run / "hugepages.json")
    if note:
        try:
            control = Path(note["path"])
            with hugepages.locked(control):
                count = hugepages.give_back(control, note["before"], note["pages"], note["done"])
                (run / "hugepages.json").unlink()
                (run / "claim.json").unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [*done, f"hugepages not given back: {error}"]  # the note stays, to try again
        if count:
            done.append(f"gave back {count} hugepages")
    return [*done, f"removed {run}" if remove_tree(run) else f"{run} could not be removed"]


def dpdk_prefix(run: Path) -> str:
    """The name under which a run's engine keeps DPDK's own run-time files."""
    return f"headrace-{run.name}"


def dpdk_folder(run: Path, prefix: str) -> Path:
    """Where an engine keeps DPDK's run-time files (telemetry's socket), started with `dpdk_in`; one
    that was killed could not remove them."""
    return run / "dpdk" / prefix


def dpdk_in(run: Path) -> dict[str, str]:
    """The environment of a program that uses DPDK: its run-time files are below `run`, as with
    RUNTIME_DIRECTORY of systemd.exec(5). By itself it would have all of root's in one place, and
    others' in /tmp/dpdk, which is the first user's."""
    return {**os.environ, "RUNTIME_DIRECTORY": str(run)}


def telemetry_sockets(run: Path, engines: Iterable[str] = ("",)) -> tuple[Path, ...]:
    """Sockets of a run's engine, while it runs; or of those that have such names of their own."""
    own = (f"{dpdk_prefix(run)}-{name}" if name else dpdk_prefix(run) for name in engines)
    sockets = (dpdk_folder(run, prefix) / "dpdk_telemetry.v2" for prefix in own)
    return tuple(socket for socket in sockets if socket.exists())
