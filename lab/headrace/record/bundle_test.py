# SPDX-License-Identifier: Apache-2.0
"""The bundle keeps what it is given, also when the run dies half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import pytest

from headrace.record import bundle, own, tables
from headrace.record.bundle import Bundle, BundleError, BundleWriter, check_new, query
from headrace.record.counters import (
    Counters,
    NfReading,
    OutputReading,
    ReplicaReading,
    RingReading,
    WorkerReading,
)
from headrace.record.environment import Environment
from headrace.record.figures import LatencyNs, PdvNs, gbps
from headrace.record.rows import Bounds, Result, Trial
from headrace.record.segments import Segment
from headrace.record.testdata import make_bundle
from headrace.record.verdict import Audit

ACL = NfReading(type="acl", packets_in=10, out={"pass": 9}, dropped={"denied": 1})
COUNTERS = Counters(
    tsc_hz=2_300_000_000,
    workers=(WorkerReading(cpu=1, ref_cycles=100, ops_cycles=60, segments=("chain.0",)),),
    replicas=(
        ReplicaReading(
            segment="chain",
            index=0,
            cpu=1,
            packets_in=10,
            packets_out=9,
            outputs={"back": OutputReading(packets=9, full=0)},
            nfs={
                "acl": NfReading(type="acl", packets_in=10, out={"pass": 9}, dropped={"denied": 1})
            },
        ),
    ),
    rings={"wire": RingReading(size=4096, full=3)},
)
COMMON = {
    "chain": "edge",
    "direction": "forward",
    "repetition": 1,
    "execution": "rtc",
    "workload": "64B",
    "load_pps": 1e6,
    "throughput_pps": 1e6,
    "throughput_gbps_l1": gbps(1e6, 64, layer=1),
    "throughput_gbps_l2": gbps(1e6, 64),
    "offered_pps": 1e6,
    "sent_pps": 1e6,
    "received_pps": 1e6,
    "loss_ratio": 0.0,
    "latency_ns": LatencyNs(mean=2, min=1, p50=2, p90=3, p99=4, p999=5, max=6),
    "pdv_ns": PdvNs(p50=1, p99=3),
    "nf_cycles": {"acl": 41.5},
    "drops": {"acl/denied": 1},
    "audit": Audit(verdict="ok"),
    "segments": (Segment(name="chain", cpus=(1,), nfs=("acl",)),),
    "counters": COUNTERS,
}


def a_trial(number: int = 1) -> Trial:
    return Trial(
        **COMMON,
        trial=number,
        phase="search",
        started_at="2026-01-01T00:00:00Z",
        intended_duration_s=2.0,
    )


def a_result() -> Result:
    return Result(**COMMON, goal="ndr", bounds=Bounds(lower_pps=1e6, upper_pps=1.01e6, trials=9))


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b", command=("run", "x.yaml")) as w:
        w.spec("chain: edge # mine\n", {"chain": "edge"})
        w.environment(Environment(collected_at="t", cpu={"model": "x"}))
        w.trial(a_trial(1))
        w.trial(a_trial(2))
        w.result(a_result())
    b = Bundle(tmp_path / "b")
    assert b.complete
    assert b.trials() == [a_trial(1), a_trial(2)]
    assert b.results() == [a_result()]
    assert b.spec_given == "chain: edge # mine\n"
    assert b.spec_resolved == {"chain": "edge"}
    assert b.environment is not None and b.environment.cpu == {"model": "x"}
    assert not list((tmp_path / "b").glob("*.jsonl"))


def test_a_table_is_read_once_while_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, load in (("b", 1e6), ("other", 2e6)):
        with BundleWriter(tmp_path / name) as w:
            w.result(a_result().model_copy(update={"load_pps": load}))
    read: list[Path] = []

    def from_parquet(path: Path, model: type[Result]) -> list[Result]:
        read.append(path)
        return tables.from_parquet(path, model)

    monkeypatch.setattr(bundle, "from_parquet", from_parquet)
    b = Bundle(tmp_path / "b")
    b.results().clear()  # a list of whoever asked
    assert [one.load_pps for one in b.results()] == [1e6]
    assert read == [b.path / "results.parquet"]
    (tmp_path / "other/results.parquet").replace(b.path / "results.parquet")
    assert [one.load_pps for one in b.results()] == [2e6]


def test_tables_alike_from_outside_are_told_apart(tmp_path: Path) -> None:
    """All are read by one instance, by the path of a descriptor, which the next one has, too."""
    for name in ("a", "b"):
        with BundleWriter(tmp_path / name) as w:
            w.result(a_result().model_copy(update={"execution": name}))
        os.utime(tmp_path / name / "results.parquet", (1e9, 1e9))
    sizes = {(tmp_path / name / "results.parquet").stat().st_size for name in ("a", "b")}
    assert len(sizes) == 1
    for name in ("a", "b", "a"):
        assert [one.execution for one in Bundle(tmp_path / name).results()] == [name]


def test_a_bundle_of_the_first_form_still_reads() -> None:
    """Written by the first headrace that had bundles, of the very rows that are made here."""
    older = Bundle(Path(__file__).parent / "older" / "first")
    assert older.trials() == [a_trial(1), a_trial(2)]
    assert older.results() == [a_result()]
    _, rows = query([older.path], "SELECT latency_ns.p99, nf_cycles['acl'] FROM results")
    assert rows == [(4.0, 41.5)]


def test_the_first_form_and_todays_are_queried_together(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "today") as w:
        w.result(a_result().model_copy(update={"policy_dropped": 3}))
    older = Path(__file__).parent / "older" / "first"
    _, rows = query(
        [older, tmp_path / "today"],
        "SELECT bundle, throughput_pps, policy_dropped FROM results ORDER BY 1",
    )
    assert rows == [("first", 1e6, None), ("today", 1e6, 3)]


def test_columns_of_a_newer_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "VERSION", tables.VERSION + 1)
    with BundleWriter(tmp_path / "newer") as w:
        w.result(a_result())
    assert Bundle(tmp_path / "newer").results() == [a_result()]
    monkeypatch.undo()
    with pytest.raises(BundleError, match=r"results\.parquet.*newer than this headrace reads"):
        Bundle(tmp_path / "newer").results()


def test_a_crash_keeps_the_finished_trials(tmp_path: Path) -> None:
    w = BundleWriter(tmp_path / "b")
    w.trial(a_trial())
    with (tmp_path / "b" / "trials.jsonl").open("a") as f:
        f.write('{"chain": "torn')
    b = Bundle(tmp_path / "b")
    assert b.status.state == "running"
    assert b.trials() == [a_trial()]
    assert b.results() == []


def test_an_interrupt_leaves_a_partial_bundle(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), BundleWriter(tmp_path / "b") as w:
        w.trial(a_trial())
        raise KeyboardInterrupt
    b = Bundle(tmp_path / "b")
    assert (b.status.state, b.status.reason) == ("partial", "interrupted")
    assert len(b.trials()) == 1


def test_runs_of_one_second_get_names_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "edge-20260101-000000"
    with ThreadPoolExecutor(8) as pool:
        writers = list(pool.map(BundleWriter.beside, [folder] * 8))
    names = {w.path.name for w in writers}
    assert names == {folder.name, *(f"{folder.name}-{n}" for n in range(2, 9))}
    with pytest.raises(BundleError, match="exists already"):
        BundleWriter(folder)  # a name that a user gave is not changed


def test_an_empty_run_has_the_same_columns(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "a"):
        pass
    with BundleWriter(tmp_path / "b") as w:
        w.result(a_result())
    names, rows = query(
        [tmp_path / "a", tmp_path / "b"],
        "SELECT bundle, goal, latency_ns.p99, nf_cycles['acl'] AS acl FROM results",
    )
    assert names == ["bundle", "goal", "p99", "acl"]
    assert rows == [("b", "ndr", 4.0, 41.5)]


def test_a_killed_run_can_be_queried(tmp_path: Path) -> None:
    w = BundleWriter(tmp_path / "killed")
    w.trial(a_trial())
    with BundleWriter(tmp_path / "whole") as whole:
        whole.trial(a_trial())
    paths = [tmp_path / "killed", tmp_path / "whole"]
    _, rows = query(paths, "SELECT bundle, count(*) FROM trials GROUP BY 1 ORDER BY 1")
    assert rows == [("killed", 1), ("whole", 1)]
    assert (tmp_path / "killed" / "trials.jsonl").exists()


def test_a_kill_while_a_killed_run_is_read_leaves_nothing(tmp_path: Path) -> None:
    BundleWriter(tmp_path / "killed").trial(a_trial())
    (tmp_path / "tmp").mkdir()
    script = """
import os, signal, sys
from pathlib import Path
from headrace.record.tables import bundle_table
with bundle_table(Path(sys.argv[1]), "trials") as table:
    assert table.stat().st_size > 1000
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "killed"],
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {one.name for one in (tmp_path / "killed").iterdir() if "trials" in one.name} == {
        "trials.jsonl"
    }


def test_bad_sql_is_said_in_one_line(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b"):
        pass
    with pytest.raises(BundleError, match="query"):
        query([tmp_path / "b"], "SELECT nothing FROM trials")


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("")])
def test_what_is_no_bundle_is_said_in_one_line(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "b")
    with pytest.raises(BundleError) as e:
        Bundle(tmp_path / "b")
    assert str(tmp_path / "b") in str(e.value) and "\n" not in str(e.value)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b"):
        pass
    (tmp_path / "b" / "trials.parquet").write_bytes(b"junk")
    with pytest.raises(BundleError, match=r"trials\.parquet"):
        Bundle(tmp_path / "b").trials()


def test_a_status_that_was_cut_short_is_said_in_one_line(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b"):
        pass
    file = tmp_path / "b" / "status.json"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(BundleError) as caught:
        _ = Bundle(tmp_path / "b").status
    error = str(caught.value)
    assert error.startswith(f"{file}: not valid JSON, cut short perhaps") and "\n" not in error


def test_files_that_are_none_of_the_bundles(tmp_path: Path) -> None:
    """A pipe blocks, a device has no end, a link leads to a file of whoever reads it."""
    folder = tmp_path / "b"
    with BundleWriter(folder) as w:
        w.spec("chain: edge\n", {})
    readers: dict[str, Callable[[], object]] = {
        "spec.yaml": lambda: Bundle(folder).spec_given,
        "resolved.json": lambda: Bundle(folder).spec_resolved,
        "environment.json": lambda: Bundle(folder).environment,
        "claims.json": lambda: Bundle(folder).claims,
        "trials.parquet": lambda: Bundle(folder).trials(),
        "results.parquet": lambda: query([folder], "SELECT * FROM results"),
        "status.json": lambda: Bundle(folder),
    }
    makers: list[Callable[[Path], None]] = [os.mkfifo, partial(os.symlink, "/dev/zero"), os.mkdir]
    for name, read in readers.items():
        file = folder / name
        before = file.read_bytes() if file.exists() else None
        for make in makers:
            if file.exists():
                file.unlink()
            make(file)
            with pytest.raises(BundleError, match=f"{name}: is no regular file; allowed: a file"):
                read()
            file.rmdir() if file.is_dir() else file.unlink()
        if before is not None:
            file.write_bytes(before)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "has a number with too many digits"),
        ("[]", "must be an object"),
    ],
)
def test_what_cannot_be_resolved_is_said_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    with BundleWriter(tmp_path / "b") as w:
        w.spec("chain: edge\n", {})
    (tmp_path / "b" / "resolved.json").write_text(text)
    with pytest.raises(BundleError, match=f"resolved.json: {why}"):
        _ = Bundle(tmp_path / "b").spec_resolved


def test_a_folder_that_takes_no_bundle_is_told_beforehand() -> None:
    with pytest.raises(BundleError, match=r"^/proc/x: cannot be made: /proc takes no directories"):
        check_new(Path("/proc/x"))


def test_a_text_without_end_is_not_read(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b"):
        pass
    os.truncate(tmp_path / "b" / "status.json", own.TEXT_MOST + 1)
    with pytest.raises(BundleError, match=r"status\.json: is too long; allowed: at most"):
        Bundle(tmp_path / "b")


def test_conservation_is_visible_in_a_reading() -> None:
    good = NfReading(
        type="x",
        packets_in=10,
        created=2,
        out={"a": 7},
        dropped={"d": 3},
        consumed=1,
        held_change=1,
    )
    assert good.missing == 0
    assert good.model_copy(update={"aborted": 1}).missing == -1


def test_gbps_layers() -> None:
    # 14.88 Mpps of 64-byte frames fill 10GbE: RFC 2544 appendix B
    assert round(gbps(14_880_952, 64, layer=1), 3) == 10.0
    assert round(gbps(14_880_952, 64), 3) == 7.619


def _bomb(folder: Path, rows: int) -> Bundle:
    """A row that it has so many times, which takes little room in a file."""
    whole = make_bundle(folder)
    table, bomb = whole / "results.parquet", whole / "bomb.parquet"
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT r.* FROM (SELECT * FROM read_parquet('{table}') LIMIT 1) AS r, "
            f"range({rows})) TO '{bomb}' (FORMAT parquet, COMPRESSION zstd)"
        )
    bomb.rename(table)
    assert table.stat().st_size < rows * 100
    return Bundle(whole)


@pytest.mark.long
def test_a_strangers_table_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = _bomb(tmp_path / "b", 1000)
    assert len(bundle.results()) == 1000
    monkeypatch.setattr(tables, "TEXT_OF_ROWS_MOST", 1 << 20)
    with pytest.raises(BundleError, match=r"results\.parquet: is too long; allowed: 1048576 bytes"):
        Bundle(bundle.path).results()
    monkeypatch.setattr(tables, "ROWS_MOST", 999)
    with pytest.raises(BundleError, match=r"results\.parquet: 1000 rows; allowed: 999"):
        query([bundle.path], "SELECT count(*) FROM results")
