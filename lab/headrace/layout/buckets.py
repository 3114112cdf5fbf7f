# SPDX-License-Identifier: Apache-2.0
"""Flows in buckets on lcores that are added and removed while packets come.

Packets are counted, and not followed one by one as in layout/events.py: an hour of millions a
second takes seconds. In each tick of a tenth of a millisecond every lcore gets packets at random
(Poisson) by the share of its buckets, works on as many as it can, and drops what its ring has no
room for. A packet waits for what is in front of it. When a bucket is moved, its lcore works on what
it has of it, and then its state goes, one bucket after the other, which takes time of both lcores
and no more than a share of the time; its packets wait meanwhile, in a place of their own, of
bounded size. Each packet is held back at the source, done, dropped, or still there.

A chain may have several stages on each of its lcores, with rings between them, that share its time
evenly: a packet for which a later stage has no room is dropped there, and what was worked on it
before is wasted, unless the source is held back before (Kulkarni et al. 2017, NFVnice: Dynamic
Backpressure and Scheduling for NFV Service Chains). Of an lcore the chain may have a part only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TICK_S = 100e-6
HOLD = 4096  # packets of a bucket that is on its way
_HALF = 0.5  # of a ring: what is inside an lcore may all be in front of one stage
_NONE = -1


@dataclass(frozen=True)
class BucketLoad:
    """`shares`: of all packets, by bucket; `moving_s`: what a move of each takes two lcores."""

    shares: Floats
    moving_s: Floats


@dataclass(frozen=True)
class StagedWork:
    """`costs`: of a packet's cost, the share of each stage; `ring`: packets between two of them;
    `held_s`: the source is held back from where what is inside takes an lcore so long, or half
    fills a ring; None: it never is."""

    costs: tuple[float, ...] = (1.0,)
    ring: int = 4096
    held_s: float | None = None


ONE_STAGE = StagedWork()


@dataclass(frozen=True)
class BucketCounts:
    """What an interval saw. By lcore: `came`, `done`, `lost`, packets that wait, `moving_s` spent
    on moves, whether it is `on`; `worked`, and `wasted` on packets that were dropped behind it, in
    packets that go through all stages. `waits`: packets by how long they waited (see `waited_s`).
    `offered`: those among them that were `held_back`."""

    seconds: float
    came: Ints
    done: Ints
    lost: Ints
    queued: Ints
    moving_s: Floats
    on: NDArray[np.bool_]
    worked: Floats
    wasted: Floats
    waits: Floats
    offered: int
    dropped: int
    held_back: int
    pending: int  # buckets that are yet to move

    def waited_s(self, share: float) -> float:
        """The time that this share of the packets did not wait longer than, at most."""
        from headrace.layout import buckets_compiled as c

        total = float(self.waits.sum())
        if total <= 0:
            return 0.0
        at = int(np.searchsorted(np.cumsum(self.waits), share * total - 1e-9))
        upper: float = c.FIRST_S * 2 ** (min(at, c.BINS - 1) / c.PER_OCTAVE)
        return 0.0 if at == 0 else upper


@dataclass
class BucketedLcores:
    """`room`: packets of an lcore's ring. At first all buckets are on the lcores `begin`, in
    turn. `share`: of the time, that moves take at most. `parts`: of each lcore's time, what the
    chain has."""

    load: BucketLoad
    most: int
    begin: Sequence[int]
    room: int
    start_s: float
    seed: int
    share: float = 1.0
    work: StagedWork = ONE_STAGE
    now_s: float = 0.0
    total: Ints = field(init=False)
    parts: Floats = field(init=False)
    _wasted_s: float = 0.0

    def __post_init__(self) -> None:
        from headrace.layout import buckets_compiled as c

        count = len(self.load.shares)
        self._bi = np.zeros((count, 5), np.int64)
        self._bi[:, c.OWNER] = self._bi[:, c.TARGET] = np.resize(self.begin, count)
        self._bi[:, c.NEXT] = _NONE
        nothing = np.zeros(count)
        self._bf = np.column_stack([self.load.shares, self.load.moving_s, nothing, nothing])
        self._li = np.zeros((self.most, 11), np.int64)
        self._li[:, [c.HEAD, c.BEGUN]] = _NONE
        self._li[list(self.begin), c.ON] = 1
        self._lf = np.zeros((self.most, 10))
        self._skip = np.zeros(self.most)
        gap, ring = 1 / self.share - 1, self.work.ring
        self._par = np.array([TICK_S, self.room, HOLD, 0.0, gap, ring], dtype=np.float64)
        self._cost = np.array(self.work.costs, dtype=np.float64)
        self._si = np.zeros((self.most, len(self._cost)), np.int64)
        self._sf = np.zeros((self.most, len(self._cost), 2))
        self.total = np.zeros(4, np.int64)
        self.parts = np.ones(self.most)
        self._weigh()

    @property
    def owners(self) -> Ints:
        """The lcore of each bucket, or the one that it is on its way to."""
        from headrace.layout import buckets_compiled as c

        return self._bi[:, c.TARGET].copy()

    @property
    def lcores(self) -> int:
        """How many are on, those that begin and those that are leaving among them."""
        return int(self.on.sum())

    @property
    def on(self) -> NDArray[np.bool_]:
        """Which of them are on."""
        from headrace.layout import buckets_compiled as c

        on: NDArray[np.bool_] = self._li[:, c.ON] > 0
        return on

    @property
    def used(self) -> tuple[int, ...]:
        """Those that are to stay."""
        from headrace.layout import buckets_compiled as c

        stays = (self._li[:, c.ON] > 0) & (self._li[:, c.RETIRING] == 0)
        return tuple(int(one) for one in np.flatnonzero(stays))

    @property
    def core_seconds(self) -> float:
        from headrace.layout import buckets_compiled as c

        return float(self._lf[:, c.SPENT].sum())

    @property
    def held_back(self) -> int:
        """Packets that the source had for them, and did not send."""
        from headrace.layout import buckets_compiled as c

        return int(self._li[:, c.HELD_BACK].sum())

    @property
    def lost_behind(self) -> int:
        """Packets that were dropped between two stages."""
        from headrace.layout import buckets_compiled as c

        return int(self._li[:, c.BEHIND].sum())

    @property
    def wasted_s(self) -> float:
        """Seconds of lcores, on packets that were dropped behind it."""
        return self._wasted_s

    @property
    def queued(self) -> int:
        """Packets that are neither done nor dropped nor held back."""
        from headrace.layout import buckets_compiled as c

        return int(self._li[:, c.QUEUE].sum() + self._bi[:, c.HELD].sum())

    def let(self, rates: Floats, serves_pps: float) -> BucketCounts:
        """Let packets come at these rates, one for each tick. `serves_pps`: by a whole lcore."""
        from headrace.layout import buckets_compiled as c

        self._lf[:, c.PART] = self.parts
        self._lf[:, c.SERVES] = serves_pps * self.parts
        held_s, ring = self.work.held_s, min(self.room, self.work.ring)
        marks = np.minimum(self._lf[:, c.SERVES] * (held_s or 0.0), _HALF * ring)
        self._lf[:, c.MARK] = 0.0 if held_s is None else marks
        before, total, spent = self._li.copy(), self.total.copy(), self._lf.copy()
        waits = np.zeros(c.BINS)
        seed = (self.seed * 1_000_003 + round(self.now_s / TICK_S)) % (1 << 31)
        c.run(
            self._bi, self._bf, self._li, self._lf, self._si, self._sf, self._cost, self.total,
            self._par, waits, self._skip, rates, self.now_s, seed,
        )  # fmt: skip
        self.now_s += len(rates) * TICK_S
        grown, used = self._li - before, self._lf - spent
        self._wasted_s += float(used[:, c.WASTED].sum()) / serves_pps
        return BucketCounts(
            seconds=len(rates) * TICK_S,
            came=grown[:, c.CAME],
            done=grown[:, c.DONE],
            lost=grown[:, c.LOST],
            queued=self._li[:, c.QUEUE].copy(),
            moving_s=used[:, c.MOVED],
            on=before[:, c.ON] > 0,
            worked=used[:, c.WORKED],
            wasted=used[:, c.WASTED],
            waits=waits,
            offered=int(self.total[c.OFFERED] - total[c.OFFERED]),
            dropped=int(self.total[c.DROPPED] - total[c.DROPPED]),
            held_back=int(grown[:, c.HELD_BACK].sum()),
            pending=int(self._li[:, c.MOVES].sum()),
        )

    def change(self, lcores: Sequence[int], owners: Ints) -> int:
        """Has these lcores from now on and no others, with buckets as `owners` says: how many move.
        A bucket that is on its way goes where it was to go, and no lcore leaves before it."""
        from headrace.layout import buckets_compiled as c

        li, bi = self._li, self._bi
        for lcore in range(self.most):
            wanted = lcore in lcores
            if wanted and not li[lcore, c.ON]:
                li[lcore, c.ON], self._lf[lcore, c.READY] = 1, self.now_s + self.start_s
                self._lf[lcore, c.DEBT], self._sf[lcore] = 0.0, 0.0
            li[lcore, c.RETIRING] = int(not wanted)
        paused = bi[:, c.PAUSED] > 0
        bi[~paused, c.TARGET] = owners[~paused]
        li[np.unique(bi[:, c.TARGET]), c.RETIRING] = 0
        leaving = np.flatnonzero((bi[:, c.OWNER] != bi[:, c.TARGET]) & ~paused)
        for lcore in range(self.most):
            behind = [int(b) for b in leaving if bi[b, c.OWNER] == lcore]
            self._queue(lcore, self._under_way(lcore), behind)
        return len(leaving)

    def _under_way(self, lcore: int) -> list[int]:
        """Buckets of this lcore that are paused, in their order."""
        from headrace.layout import buckets_compiled as c

        b, paused = int(self._li[lcore, c.BEGUN]), []
        while b not in (_NONE, self._li[lcore, c.HEAD]):
            paused.append(b)
            b = int(self._bi[b, c.NEXT])
        return paused

    def _queue(self, lcore: int, paused: list[int], behind: list[int]) -> None:
        from headrace.layout import buckets_compiled as c

        every = [*paused, *behind]
        for b, following in pairwise([*every, _NONE]):
            self._bi[b, c.NEXT] = following
        self._li[lcore, c.HEAD] = behind[0] if behind else _NONE
        self._li[lcore, c.MOVES] = len(every)

    def _weigh(self) -> None:
        from headrace.layout import buckets_compiled as c

        for lcore in range(self.most):
            mine = self._bi[:, c.OWNER] == lcore
            self._lf[lcore, c.WEIGHT] = self.load.shares[mine].sum()
