# SPDX-License-Identifier: Apache-2.0
"""The chain as a pipe: each part as high as what it could carry with its lcores to itself, shaded
where these have other parts to run, with what flowed through it inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.analyse.bottleneck import BUSY, Pipe, room
from headrace.analyse.capacity import PAUSED, Part
from headrace.analyse.units import SPACE, Scale, count, percent, rate_scale, significant

from .bar_rows import Bar, Piece
from .bars import Bars, plain
from .svg import el, fits, line, picture, rect, shorten, text, title

BORE = 104.0  # drawn height of the widest part
WIDEST = 3.0  # times the narrowest, or the flow; wider parts have open walls; the number tells
TOP, BOTTOM = 46.0, 50.0
JOINT = 16.0  # where one part's bore turns into the next one's


@dataclass(frozen=True)
class Flow:
    pipe: Pipe
    kind: Literal["flow"] = "flow"

    def draw(self, width: float) -> str:
        return draw(self.pipe, width)

    def bars(self) -> Bars:
        scale = rate_scale(self.pipe.carried_pps)
        bars = [_as_bar(part, self.pipe, scale) for part in self.pipe.drawn()]
        return plain(bars, f"{scale.unit}, each part by itself", divisor=scale.divisor)


class _Slot(NamedTuple):
    part: Part
    x: float
    width: float
    half: float  # of the bore
    channel: float  # the same, as its lcores are shared
    open: bool  # wider than can be drawn


def draw(pipe: Pipe, width: float) -> str:
    slots = _layout(pipe, width)
    if not slots:
        return ""
    total = slots[-1].x + slots[-1].width
    scale = rate_scale(pipe.carried_pps)
    middle = TOP + BORE / 2
    body = [
        _bore(slots, middle),
        *(_lent(s, middle) for s in slots),
        _water(slots, pipe, middle),
        *(_blocks(s, middle) for s in slots),
        *(_open(s, middle) for s in slots if s.open),
        *(_rings(s, middle) for s in slots),
        *(_labels(s, pipe, scale, width < 500) for s in slots),
    ]
    height = TOP + BORE + BOTTOM
    if width < 500:  # no room for the unit at each number
        height += 12
        body.append(text(2, height - 4, f"in {scale.unit}", class_="small"))
    words = ", ".join(f"{s.part.name} {scale.text(s.part.own_pps)}" for s in slots)
    label = f"Capacities: {words}. Flow: {scale.text(pipe.carried_pps)}. {pipe.headline}"
    return picture(total, height, label, *body)


def _widest(pipe: Pipe) -> float:
    """Packets/s beyond which a part is drawn no wider: narrow ones could not be told apart."""
    narrowest = min((p.own_pps for p in pipe.parts if p.own_pps), default=0.0)
    return WIDEST * max(narrowest, pipe.carried_pps)


def _layout(pipe: Pipe, width: float) -> list[_Slot]:
    parts = [p for p in pipe.drawn() if p.capacity_pps is not None or p.role == "chain"]
    if not parts:
        return []
    ends = 0.95 if width < 500 else 0.85
    units = [max(1, len(p.nfs)) if p.role == "chain" else ends for p in parts]
    # Labels need some room: a long chain makes the picture wider, and its frame scrolls.
    unit = max((width - 2) / sum(units), 64.0 if width < 500 else 74.0)
    cap = _widest(pipe)
    largest = max(min(p.own_pps or pipe.carried_pps, cap) for p in parts) or 1.0
    slots, x = [], 1.0
    for part, size in zip(parts, units, strict=True):
        own = part.own_pps or pipe.carried_pps
        half, channel = (
            min(pps, cap) / largest * BORE / 2 for pps in (own, part.capacity_pps or own)
        )
        slots.append(_Slot(part, x, size * unit, half, channel, own > cap))
        x += size * unit
    return slots


def _bore(slots: Sequence[_Slot], middle: float) -> str:
    """The wall: top edge there, bottom edge back, smooth from one bore to the next."""
    upper, lower = [], []
    for i, s in enumerate(slots):
        left = s.x + (JOINT / 2 if i else 0)
        right = s.x + s.width - (JOINT / 2 if i + 1 < len(slots) else 0)
        upper.append((left, right, middle - s.half))
        lower.append((left, right, middle + s.half))
    path = f"M{upper[0][0]:.1f},{upper[0][2]:.1f}" + _edge(upper)
    back = [(right, left, y) for left, right, y in reversed(lower)]
    path += f"L{back[0][0]:.1f},{back[0][2]:.1f}" + _edge(back) + "Z"
    return el("path", d=path, class_="bore")


def _edge(runs: Sequence[tuple[float, float, float]]) -> str:
    path, previous = "", None
    for start, end, y in runs:
        if previous is not None:
            x0, y0 = previous
            bend = (x0 + start) / 2
            path += f"C{bend:.1f},{y0:.1f} {bend:.1f},{y:.1f} {start:.1f},{y:.1f}"
        path += f"L{end:.1f},{y:.1f}"
        previous = (end, y)
    return path


def _lent(slot: _Slot, middle: float) -> str:
    """What its lcores have to do for other parts, above and below what is left."""
    height = slot.half - slot.channel
    if height <= 0.5:
        return ""
    places = (middle - slot.half, middle + slot.channel)
    left, width = slot.x + JOINT / 2, slot.width - JOINT
    tip = title("time of its lcores that other parts take")
    return "".join(rect(left, y, width, height, tip, class_="lent") for y in places)


def _water(slots: Sequence[_Slot], pipe: Pipe, middle: float) -> str:
    known = [s for s in slots if s.part.own_pps and not s.open]
    if not known:
        return ""
    # All bores are drawn to one scale; take it from one that is not cut off.
    one = known[0]
    half = one.half * pipe.carried_pps / (one.part.own_pps or 1.0)
    x, end = slots[0].x, slots[-1].x + slots[-1].width
    return rect(x, middle - half, end - x, 2 * half, class_="water")


def _blocks(slot: _Slot, middle: float) -> str:
    part = slot.part
    names = part.nfs if part.role == "chain" else ()
    if not names:
        return ""
    cycles = {c.name: c.cycles for c in part.costs}
    each = slot.width / len(names)
    body = []
    for i, name in enumerate(names):
        x = slot.x + i * each
        if i:
            y = slot.half
            body.append(line(x, middle - y, x, middle + y, class_="cut"))
        shown = shorten(name, each - 10, 13)
        half = each / 2
        body.append(text(x + half, middle - 3, shown, class_="nf", text_anchor="middle"))
        if name in cycles:
            cost = f"{significant(cycles[name])} cyc"
            body.append(text(x + half, middle + 11, cost, class_="small", text_anchor="middle"))
    tip = "\n".join(f"{c.name}: {significant(c.cycles)} cycles per packet" for c in part.costs)
    hover = rect(slot.x, middle - slot.half, slot.width, 2 * slot.half, title(tip), class_="hover")
    return "".join(body) + hover


def _open(slot: _Slot, middle: float) -> str:
    """Dashes over the wall: the real one is further out."""
    left, right = slot.x + JOINT, slot.x + slot.width - JOINT
    return "".join(
        line(left, middle + side * slot.half, right, middle + side * slot.half, class_="beyond")
        for side in (-1, 1)
    )


def _rings(slot: _Slot, middle: float) -> str:
    """A ring sits where its reader begins; red when packets found it full."""
    if not slot.part.rings:
        return ""
    full = sum(slot.part.rings.values())
    tip = ", ".join(f"{r}: full for {count(n)} packets" for r, n in slot.part.rings.items())
    height = min(slot.half, BORE / 2) * 2
    return rect(
        slot.x - 2.5,
        middle - height / 2,
        5,
        height,
        title(tip),
        rx=2.5,
        class_="ring full" if full else "ring",
    )


def _labels(slot: _Slot, pipe: Pipe, scale: Scale, small: bool) -> str:
    part, x = slot.part, slot.x + slot.width / 2
    narrowest = part.name in pipe.marked
    mark = "narrowest" if pipe.limit is None else "limit reached"
    wide = slot.width - 6
    size = 10.0 if small else 12.0
    names = [part.name] if len(part.nfs) != 1 else [part.nfs[0]]
    if len(part.nfs) > 1 and not fits(part.name, wide, size):
        names = ["segment"]
    lcores = f"lcore {', '.join(map(str, part.cpus))}" if part.cpus else ""
    if len(part.cpus) > 3:
        lcores = f"{len(part.cpus)} lcores"
    y = TOP + BORE
    rows = [
        text(x, 14, mark, class_="mark", text_anchor="middle") if narrowest else "",
        text(x, 28, shorten(names[0], wide, size), class_="part", text_anchor="middle"),
        text(x, 41, shorten(lcores, wide, size), class_="small", text_anchor="middle"),
        text(
            x,
            y + 17,
            scale.number(part.own_pps) if small else scale.text(part.own_pps),
            class_="capacity narrow" if narrowest else "capacity",
            text_anchor="middle",
        ),
    ]
    if part.utilisation is not None:
        idle = part.utilisation < 0.01  # digits of nearly nothing would only take room
        share = f"<1{SPACE}%" if idle else percent(part.utilisation, 2 if small else 3)
        busy = f"{share} busy{_polls(part)}"
        if not fits(busy, wide, size):
            busy = f"{share} busy"
        rows.append(text(x, y + 32, busy, class_="small", text_anchor="middle"))
    if slot.half - slot.channel > 0.5:
        left = scale.number(part.capacity_pps) if small else scale.text(part.capacity_pps)
        shared = f"shared {left}"
        rows.append(text(x, y + 46, shared, class_="small", text_anchor="middle"))
    if narrowest:
        middle = TOP + BORE / 2
        for side in (-1, 1):
            edge = middle + side * slot.half
            rows.append(line(slot.x + 9, edge, slot.x + slot.width - 9, edge, class_="squeeze"))
    return "".join(rows)


def _polls(part: Part) -> str:
    """Why a part that is always busy can carry more: when more packets come its polls find more."""
    if (part.utilisation or 0.0) < BUSY or not room(part):
        return ""
    return f", {significant(part.burst or 0.0, 2)} of {part.most_burst} a poll"


def _as_bar(part: Part, pipe: Pipe, scale: Scale) -> Bar:
    here, own = part.name in pipe.marked, part.own_pps or 0.0
    word = "narrowest" if pipe.limit is None else "limit reached"
    notes = [f"lcore {','.join(map(str, part.cpus))}"]
    if own > (part.capacity_pps or 0.0):
        notes[0] += f", shared: {scale.text(part.capacity_pps)}"
    if part.utilisation is not None:
        notes.append(f"{percent(part.utilisation)} busy{_polls(part)}")
    if (part.paused or 0.0) >= PAUSED:
        notes.append(f"{percent(part.paused, 2)} paused")
    most = _widest(pipe)
    pieces = (Piece(part.name, min(own, most), "narrowest" if here else "bar"),)
    text = scale.text(part.own_pps) + (" ▸" if own > most else "")
    return Bar(part.name, pieces, text, ", ".join([*notes, *([word] if here else [])]))
