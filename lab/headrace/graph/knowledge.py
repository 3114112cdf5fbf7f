# SPDX-License-Identifier: Apache-2.0
"""The knowledge base: what is known of each VNF, and the rules between them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headrace.errors import BadInput
from headrace.record.frozen import Record
from headrace.spec import document
from headrace.spec.appliance import Base
from headrace.spec.invalid import explain


class Category(StrEnum):
    """NfvInsight's four categories, and one for VNFs that nobody described."""

    LEAF = "leaf"
    NETWORK = "network-oriented"
    HOST = "host-oriented"
    GENERAL = "general"
    UNCLASSIFIED = "unclassified"


class HeaderField(StrEnum):
    """Parts of a packet, named as the engine's NFs declare them (engine/core/nf.h)."""

    MAC = "mac"
    VLAN = "vlan"
    SRC_IP = "src_ip"
    DST_IP = "dst_ip"
    SRC_PORT = "src_port"
    DST_PORT = "dst_port"
    PROTO = "proto"
    TTL = "ttl"
    DSCP = "dscp"
    L4_FLAGS = "l4_flags"
    PAYLOAD = "payload"
    LENGTH = "length"


class KnownVnf(Record):
    """What is known of one VNF."""

    category: Category
    title: str = ""
    aliases: tuple[str, ...] = ()
    reads: frozenset[HeaderField] = frozenset()
    writes: frozenset[HeaderField] = frozenset()
    drops: bool = False
    changes_volume: bool = False


class RuleText(Record):
    """One sentence of the rule language, and why it holds."""

    rule: str
    why: str = ""


class KnowledgeFile(Record):
    """A knowledge base as written in YAML."""

    extends: Literal["default", "none"] = "default"
    vnfs: dict[str, KnownVnf] = Field(default_factory=dict)
    rules: tuple[RuleText, ...] = ()

    @field_validator("rules", mode="before")
    @classmethod
    def _plain_sentences(cls, value: Any) -> Any:
        if isinstance(value, list):
            return tuple({"rule": item} if isinstance(item, str) else item for item in value)
        return value


class PlacedRule(BaseModel):
    """A rule with the place it was read from, for messages."""

    model_config = ConfigDict(frozen=True)

    place: str
    text: str
    why: str = ""


def normal_name(name: str) -> str:
    """`L4 LB`, `l4_lb` and `l4-lb` are one name."""
    return "-".join(name.strip().lower().replace("_", " ").replace("-", " ").split())


class Knowledge(BaseModel):
    """VNFs and rules, merged from as many files as were given."""

    model_config = ConfigDict(frozen=True)

    vnfs: dict[str, KnownVnf]
    rules: tuple[PlacedRule, ...]

    def find(self, name: str) -> str | None:
        """The proper name for a name or alias; None when it is not known."""
        wanted = normal_name(name)
        if wanted in self.vnfs:
            return wanted
        for known, vnf in self.vnfs.items():
            if wanted in (normal_name(alias) for alias in vnf.aliases):
                return known
        return None

    def similar(self, name: str) -> str | None:
        """A known name that was probably meant."""
        names = list(self.vnfs) + [normal_name(a) for v in self.vnfs.values() for a in v.aliases]
        wanted = normal_name(name)
        close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.75)
        # In a name of three letters two that changed places leave too little in common.
        swapped = (
            wanted[:i] + wanted[i : i + 2][::-1] + wanted[i + 2 :] for i in range(len(wanted))
        )
        return next((one for one in (*close, *swapped) if one in names), None)


EMPTY = Knowledge(vnfs={}, rules=())


def read_file(path: Path) -> KnowledgeFile:
    """Read one YAML file; bad input names the file, the line and what is wrong."""
    return _validated(document.load(path))


def parse_file(place: str, text: str) -> KnowledgeFile:
    return _validated(document.parse(text, Path(place)))


def _validated(doc: document.Document) -> KnowledgeFile:
    try:
        knowledge = KnowledgeFile.model_validate({} if doc.data is None else doc.data)
    except ValidationError as error:
        raise explain(doc, error, KnowledgeFile) from None
    if knowledge == KnowledgeFile():
        raise doc.error((), f"holds nothing; allowed: {', '.join(KnowledgeFile.model_fields)}")
    return knowledge


def merge(base: Knowledge, place: str, more: KnowledgeFile) -> Knowledge:
    """`more` on top of `base`: its VNFs replace those of the same name, its rules are added."""
    vnfs = {} if more.extends == "none" else dict(base.vnfs)
    vnfs.update({normal_name(name): vnf for name, vnf in more.vnfs.items()})
    rules = [] if more.extends == "none" else list(base.rules)
    rules += [
        PlacedRule(place=f"{place}: rules[{i}]", text=rule.rule, why=rule.why)
        for i, rule in enumerate(more.rules)
    ]
    return Knowledge(vnfs=vnfs, rules=tuple(rules))


def _base(wanted: Base) -> Knowledge:
    knowledge = EMPTY
    for base in Base:
        file = f"{base}.yaml"
        text = resources.files("headrace.graph").joinpath(file).read_text(encoding="utf-8")
        knowledge = merge(knowledge, file, parse_file(file, text))
        if base is wanted:
            break
    return knowledge


def load(
    files: Iterable[Path] = (), *, base: Base = Base.NFVINSIGHT, rules: bool = True
) -> Knowledge:
    """A knowledge base and the given files on top; `rules=False` keeps only the VNFs."""
    knowledge = _base(base)
    for path in files:
        knowledge = merge(knowledge, str(path), read_file(path))
    return knowledge if rules else Knowledge(vnfs=knowledge.vnfs, rules=())


def with_declared(knowledge: Knowledge, describe: Path) -> Knowledge:
    """Add the engine's NFs by what they declare: the output of `headrace-engine --describe`."""
    try:
        nfs: dict[str, Any] = json.loads(describe.read_text(encoding="utf-8"))["nfs"]
        vnfs = dict(knowledge.vnfs) | {normal_name(name): _declared(nf) for name, nf in nfs.items()}
    except OSError as error:
        raise BadInput(f"{describe}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{describe}: not the output of `headrace-engine --describe`") from None
    return Knowledge(vnfs=vnfs, rules=knowledge.rules)


def _declared(nf: dict[str, Any]) -> KnownVnf:
    return KnownVnf(
        category=nf["category"],
        title=str(nf.get("doc", "")).split(".")[0],
        reads=frozenset(nf["reads"]),
        writes=frozenset(nf["writes"]),
        drops=nf["may_drop"],
        changes_volume=nf["changes_volume"],
    )
