"""A body held against the types of the official SDKs, strictly.

Validating the SDKs' TypedDicts as they are shows little: an Iterable is accepted unread, and unknown members are ignored. Here
every list is walked, every member must be one that the type names, and a union of objects is decided by what its literals say
(`role`, `type`). Anthropic's beta types are taken, which hold the plain ones and what is newer (MCP, compaction, context
management).

A violation is a string that names the item, but not the place of a block inside it: leaving a block out moves its neighbours
and breaks nothing. What a body brought along (vendors' members) it may keep: compare with the violations of the original.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import typing_extensions
from anthropic.types.beta.message_create_params import MessageCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from typing_extensions import get_type_hints, is_typeddict

from sidecar.core.types import Format
from sidecar.formats.adapters import NAMES
from tests.helpers.sdk_more import converse_violations, gemini_violations

__all__ = ["sdk_violations"]

_ROOTS: dict[str, object] = {
    "openai-chat": CompletionCreateParams,
    "openai-responses": ResponseCreateParams,
    "anthropic-messages": MessageCreateParams,
}
_OTHERS = {"bedrock-converse": converse_violations, "gemini": gemini_violations}
_REQUIRED = (Required, NotRequired, typing_extensions.Required, typing_extensions.NotRequired)
_LISTS = (list, collections.abc.Iterable, collections.abc.Sequence, tuple)


def sdk_violations(format: Format | str, body: Mapping[str, Any]) -> set[str]:
    """All that the SDK's types for a request do not allow in a body.

    Args:
        format: of the body; a Format or its name.
        body: as json.loads gives it.
    """
    name = NAMES[format] if isinstance(format, Format) else format
    if name in _OTHERS:
        return set(_OTHERS[name](body))
    return set(_walk(_ROOTS[name], body, "body"))


def _bare(hint: Any) -> Any:
    """A type without what only decorates it."""
    while get_origin(hint) is Annotated or get_origin(hint) in _REQUIRED:
        hint = get_args(hint)[0]
    if isinstance(hint, typing_extensions.TypeAliasType):
        return _bare(hint.__value__)
    return hint


@cache
def _variants(hint: Any) -> list[Any]:
    hint = _bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return [variant for member in get_args(hint) for variant in _variants(member)]
    return [hint]


@cache
def _members(hint: Any) -> dict[str, Any]:
    return dict(get_type_hints(hint, include_extras=True))


@cache
def _required(hint: Any) -> frozenset[str]:
    # With postponed annotations a TypedDict's own __required_keys__ does not see what Required and NotRequired say.
    said = {key: get_origin(member) for key, member in _members(hint).items()}
    must = {key for key, origin in said.items() if origin in (Required, typing_extensions.Required)}
    may = {key for key, origin in said.items() if origin in (NotRequired, typing_extensions.NotRequired)}
    return frozenset((hint.__required_keys__ - may) | must)


@cache
def _literals(hint: Any) -> dict[str, tuple[Any, ...]]:
    """Members of an object type that must be there and have one of a few values: what tells it from others."""
    found = {}
    for key in _required(hint):
        member = _bare(_members(hint)[key])
        if get_origin(member) is Literal:
            found[key] = get_args(member)
    return found


def _is_list(hint: Any) -> bool:
    origin = get_origin(hint) or hint
    return origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr"


def _walk(hint: Any, value: Any, path: str) -> Iterator[str]:
    variants = _variants(hint)
    if any(variant in (object, Any) for variant in variants):
        return
    if isinstance(value, Mapping):
        yield from _object(variants, value, path)
    elif isinstance(value, list):
        yield from _list(variants, value, path)
    elif not any(_is_scalar(variant, value) for variant in variants):
        yield f"{path}: {_kind(value)} is not allowed"


def _object(variants: list[Any], value: Mapping[str, Any], path: str) -> Iterator[str]:
    candidates = [list(_map(variant, value, path)) for variant in variants if _is_map(variant)]
    objects = [variant for variant in variants if is_typeddict(variant)]
    fitting = [one for one in objects if all(value.get(key) in allowed for key, allowed in _literals(one).items())]
    candidates += [list(_fields(one, value, path)) for one in fitting]
    if candidates:
        yield from min(candidates, key=len)
    elif said := {key: value.get(key) for one in objects for key in _literals(one)}:
        yield f"{path}: no object with {said} is known"
    else:
        yield f"{path}: object is not allowed"


def _is_map(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (dict, collections.abc.Mapping)


def _map(hint: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    inner = get_args(hint)[1] if get_args(hint) else object
    for key, member in value.items():
        yield from _walk(inner, member, f"{path}.{key}")


def _fields(hint: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    members = _members(hint)
    place = f"{path}<{value['type']}>" if isinstance(value.get("type"), str) else path
    for key in sorted(_required(hint) - value.keys()):
        yield f"{place}: {key} is missing"
    for key, member in value.items():
        if key not in members:
            yield f"{place}: {key} is not known"
        else:
            yield from _walk(members[key], member, f"{place}.{key}")


def _list(variants: list[Any], value: list[Any], path: str) -> Iterator[str]:
    lists = [variant for variant in variants if _is_list(variant)]
    if not lists:
        yield f"{path}: list is not allowed"
        return
    # Several list types in one union (strings or blocks): the one that fits best.
    yield from min((list(_elements(one, value, path)) for one in lists), key=len)


def _elements(hint: Any, value: list[Any], path: str) -> Iterator[str]:
    inner = get_args(hint)[0] if get_args(hint) else object
    for index, element in enumerate(value):
        yield from _walk(inner, element, f"{path}[{index}]" if path in ("body.messages", "body.input") else f"{path}[]")


def _is_scalar(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint) and type(value) in {type(allowed) for allowed in get_args(hint)}
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint in (None, type(None)):
        return value is None
    return hint in (str, int, bool) and type(value) is hint


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
