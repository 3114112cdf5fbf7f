# SPDX-License-Identifier: Apache-2.0
"""Readings for tests: what a test says, and zero for all that the engine would say beside."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from headrace.engine.counts import EngineCounts


def counts(said: dict[str, Any]) -> EngineCounts:
    return EngineCounts.model_validate(_filled(EngineCounts, said))


def _filled(kind: Any, said: Any) -> Any:
    """`said`, None where nothing is, in the form of this type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _filled(args[0], said)
    if origin in (Union, types.UnionType):
        several = [one for one in args if isinstance(one, type) and issubclass(one, BaseModel)]
        if type(None) in args and said is None:
            return None
        if len(several) > 1:
            [several] = [[one] for one in several if said["type"] in _type_of(one)]
        return _filled(several[0], said) if several else said
    if origin is Literal:
        return args[0] if said is None else said
    if origin is dict:
        return {key: _filled(args[1], one) for key, one in (said or {}).items()}
    if origin is tuple:
        return [_filled(args[0], one) for one in said or ()]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _of_model(kind, said or {})
    return kind() if said is None else said


def _type_of(kind: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(kind.model_fields["type"].annotation)


def _of_model(kind: type[BaseModel], said: dict[str, Any]) -> dict[str, Any]:
    whole = dict(said)
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if key in said or field.is_required():
            whole[key] = _filled(field.annotation, said.get(key))
    return whole
