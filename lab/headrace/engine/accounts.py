# SPDX-License-Identifier: Apache-2.0
"""Where a trial's packets went, from two reads of the engine: to the packet, by direction and size.

A read's `ended` says of each place and reason whose packets they were: a source's, forward or
reverse, or made by a function (copies, ICMP errors, exports), and of which size class. NICs and
switches of others count packets only, and other links than rings and shared memory forget whose a
packet is: then only the sum of all directions and sizes can be settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.engine.counts import EngineCounts
from headrace.engine.link_counts import (
    Ends,
    LinkCounts,
    PortCounts,
    RingCounts,
    ShmCounts,
    SinkCounts,
    SourceCounts,
)
from headrace.record.account import Account
from headrace.record.identity import Direction

CREATED = "created"
CONSUMED = "consumed"
HELD = "held"
SIZES = ("64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519-")  # RFC 2819
# Links behind which a packet is known to be whose:
_REMEMBER = (RingCounts, ShmCounts, SourceCounts, SinkCounts)
# That a device found no buffer (rx_no_mbuf) is no loss yet: what it cannot keep is missed.
_LOST: Mapping[type[LinkCounts], tuple[str, ...]] = {
    PortCounts: ("rx_missed", "rx_errors", "tx_errors", "tx_capped"),
    ShmCounts: ("corrupt",),
}


@dataclass(frozen=True)
class Books:
    """What grew between two reads."""

    ends: dict[str, dict[str, Counter[str]]]  # "place/reason": owner: size class: packets
    held: dict[str, Counter[str]]  # by functions; owner: size class: packets
    plain: dict[str, int]  # "place/reason": packets of nobody knows whom
    # The same, at most: what kernel and engine count otherwise at a port, or an appliance kept.
    between: dict[str, int]
    waiting: int  # packets in queues
    created: int  # packets that functions made
    remembered: bool  # whose a packet is, from end to end

    def dropped(self, owners: Iterable[str], size: str | None = None) -> dict[str, int]:
        """What was dropped by place and reason; what ended on purpose (`consumed`) is among
        them."""
        wanted = tuple(owners)
        counts = {
            place: sum(_of(by.get(owner), size) for owner in wanted)
            for place, by in self.ends.items()
        }
        return {place: count for place, count in counts.items() if count}

    def by_policy(self, owners: Iterable[str], policy: Mapping[str, Collection[str]]) -> int:
        """Packets that functions dropped for reasons that they call policy."""
        dropped = self.dropped(owners)
        return sum(
            dropped.get(f"{name}/{reason}", 0)
            for name, reasons in policy.items()
            for reason in reasons
        )

    def held_of(self, owners: Iterable[str], size: str | None = None) -> int:
        return sum(_of(self.held.get(owner), size) for owner in owners)


def _of(sizes: Counter[str] | None, size: str | None) -> int:
    if sizes is None:
        return 0
    return sum(sizes.values()) if size is None else sizes[size]


def books(before: EngineCounts, after: EngineCounts) -> Books:
    ends: dict[str, dict[str, Counter[str]]] = {}
    held: dict[str, Counter[str]] = {}
    was, now = _ended(before), _ended(after)
    for (place, reason, owner, size), count in now.items():
        grown = count - was.get((place, reason, owner, size), 0)
        into = held if reason == HELD else ends.setdefault(f"{place}/{reason}", {})
        into.setdefault(owner, Counter())[size] += grown
    for key, count in was.items():  # what was held before, and is not any more
        if key not in now and key[1] == HELD:
            held.setdefault(key[2], Counter())[key[3]] -= count
    return Books(
        ends=ends,
        held=held,
        plain=_plain(before, after),
        between=_between(before, after) | _inside(before, after) | _missing(before, after),
        waiting=waiting(after) - waiting(before),
        created=_created(after) - _created(before),
        remembered=all(isinstance(link, _REMEMBER) for link in after.links.values()),
    )


def _ended(read: EngineCounts) -> Counter[tuple[str, str, str, str]]:
    ended: Counter[tuple[str, str, str, str]] = Counter()

    def add(place: str, reasons: Mapping[str, Ends]) -> None:
        for reason, owners in reasons.items():
            for owner, sizes in owners.items():
                for size, count in sizes.items():
                    ended[place, reason, owner, size] += count

    for replica in read.replicas:
        for name, nf in replica.nfs.items():
            add(name, nf.ended)
        for link, output in replica.outputs.items():
            add(link, {"full": output.ended})
    for name, one in read.links.items():
        if isinstance(one, ShmCounts):
            add(name, one.ended)
        if isinstance(one, RingCounts):
            add(name, {"full": one.ended})
    return ended


def _plain(before: EngineCounts, after: EngineCounts) -> dict[str, int]:
    counts = {}
    for name, now in after.links.items():
        was = before.links.get(name)
        keys = _LOST.get(type(now), ())
        for key in keys:
            grown = getattr(now, key) - getattr(was, key, 0)
            if grown:
                counts[f"{name}/{key.replace('_', '-')}"] = grown
    return counts


def _between(before: EngineCounts, after: EngineCounts) -> dict[str, int]:
    """Packets that a switch gave a port, and its engine did not get, as a packet socket's ring was
    full; and the same on the other way. Packets of the kernel's own are among them."""
    held = {}
    for name, now in after.links.items():
        if not isinstance(now, PortCounts) or now.device is None:
            continue
        was = before.links.get(name)
        assert was is None or isinstance(was, PortCounts)
        own = now.since(was)
        assert own.device is not None
        for reason, lost in (
            ("not-received", own.device.rx_packets - own.rx_packets),
            ("not-sent", own.tx_packets - own.device.tx_packets),
        ):
            if lost > 0:
                held[f"{name}/{reason}"] = lost
    return held


def _missing(before: EngineCounts, after: EngineCounts) -> dict[str, int]:
    """Packets that left one port, and did not come to the one at the other end."""
    grown = {place: n - before.missing.get(place, 0) for place, n in after.missing.items()}
    return {place: n for place, n in grown.items() if n > 0}


def _inside(before: EngineCounts, after: EngineCounts) -> dict[str, int]:
    """What the host's engine gave an appliance, which counts for nobody, and did not get back."""
    held = {}
    for name, vnf in after.vnfs.items():
        if vnf.opaque:
            kept = _given(after, vnf.links) - _given(before, vnf.links)
            if kept > 0:
                held[f"{name}/inside"] = kept
    return held


def _given(read: EngineCounts, links: Collection[str]) -> int:
    """Packets into these links, less those out of them."""
    return sum(
        sign * side.packets
        for replica in read.replicas
        for sides, sign in ((replica.outputs, 1), (replica.inputs, -1))
        for link, side in sides.items()
        if link in links
    )


def waiting(read: EngineCounts) -> int:
    """Packets in queues of the engine's: rings, outputs that wait for room, functions beside."""
    queues = (link for link in read.links.values() if isinstance(link, RingCounts | ShmCounts))
    return sum(queue.used for queue in queues) + sum(
        replica.pending + (replica.parallel.used if replica.parallel else 0)
        for replica in read.replicas
    )


def _created(read: EngineCounts) -> int:
    return sum(nf.created for replica in read.replicas for nf in replica.nfs.values())


@dataclass(frozen=True)
class Way:
    """One direction's source and sink, as they were read after the trial."""

    direction: Direction
    source: SourceCounts
    sink: SinkCounts


@dataclass(frozen=True)
class Settled:
    accounts: tuple[Account, ...]
    created: Account | None  # `sent` is what functions made
    dropped: dict[str, int] = field(default_factory=dict)  # of the sources' packets


def settle(books: Books, ways: Sequence[Way], among: int) -> Settled:
    """The accounts of these directions, of `among` that had traffic."""
    whole = len(ways) == among
    owners = ("forward", "reverse") if whole else tuple(way.direction for way in ways)
    direction: Direction = ways[0].direction if len(ways) == 1 else "both"
    if not whole and (not books.remembered or books.plain or books.waiting):
        return Settled((), None, books.dropped(owners))
    total = _account(books, ways, owners, direction, whole)
    if whole:
        total = _placed(total, books.between)
    rows = [total]
    sizes = [size for size in SIZES if any(way.source.sizes.get(size) for way in ways)]
    if len(sizes) > 1 and not books.plain and not books.waiting and books.remembered:
        rows += [_of_size(books, ways, owners, direction, size) for size in sizes]
    created = _of_functions(books, ways) if whole and books.remembered and books.created else None
    return Settled(tuple(rows), created, total.dropped)


def _placed(one: Account, between: Mapping[str, int]) -> Account:
    """What is missing was lost where the kernel had it and the engine did not."""
    dropped, unknown = dict(one.dropped), one.unknown
    for place, most in between.items():
        here = min(most, unknown)
        if here > 0:
            dropped[place] = here
            unknown -= here
    return one.model_copy(update={"dropped": dropped, "unknown": unknown})


def _account(
    books: Books, ways: Sequence[Way], owners: Sequence[str], direction: Direction, whole: bool
) -> Account:
    sent = sum(way.source.sent for way in ways)
    received = sum(way.sink.own.packets for way in ways)
    dropped = books.dropped(owners) | (books.plain if whole else {})
    held = books.held_of(owners) + (books.waiting if whole else 0)
    unknown = sent - received - sum(dropped.values()) - held
    if not books.remembered and books.created:
        # Copies were taken for what they are copies of: only all of them together add up.
        unknown += books.created - sum(books.dropped([CREATED]).values())
        unknown -= books.held_of([CREATED])
        unknown -= sum(way.sink.duplicated + way.sink.created for way in ways)
    return Account(
        direction=direction,
        size="all",
        sent=sent,
        received=received,
        dropped=dropped,
        held=held,
        unknown=unknown,
    )


def _of_size(
    books: Books, ways: Sequence[Way], owners: Sequence[str], direction: Direction, size: str
) -> Account:
    sent = sum(way.source.sizes.get(size, 0) for way in ways)
    received = sum(way.sink.own.sizes.get(size, 0) for way in ways)
    dropped, held = books.dropped(owners, size), books.held_of(owners, size)
    return Account(
        direction=direction,
        size=size,
        sent=sent,
        received=received,
        dropped=dropped,
        held=held,
        unknown=sent - received - sum(dropped.values()) - held,
    )


def _of_functions(books: Books, ways: Sequence[Way]) -> Account:
    received = sum(way.sink.created for way in ways)
    dropped, held = books.dropped([CREATED]), books.held_of([CREATED])
    return Account(
        direction="both",
        size="all",
        sent=books.created,
        received=received,
        dropped=dropped,
        held=held,
        unknown=books.created - received - sum(dropped.values()) - held,
    )


def without_consumed(dropped: Mapping[str, int]) -> dict[str, int]:
    """What a function consumes is where the packet was to go: no drop."""
    return {
        place: count for place, count in dropped.items() if place.rsplit("/", 1)[-1] != CONSUMED
    }
