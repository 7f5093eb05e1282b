"""`Scan.member` in both forms: the value of the last root member with a decoded key."""

from __future__ import annotations

import pytest

from tests.helpers.backends import PURE, Backend, compiled
from tests.helpers.grammars import MESSAGES

BODY = (
    b'{"model": "m", "thinking": {"type": "one"}, "messages": [{"role": "user", "thinking": 5}], "th\\u0069nking": [2],'
    b' "a\\\\b": 1, "": null, "\\ud800": 3, "model": "n"}'
)
KEYS = {
    b"model": b'"n"',
    b"thinking": b"[2]",
    b"th\\u0069nking": b"",
    b"a\\b": b"1",
    b"a\\\\b": b"",
    b"": b"null",
    b"\xed\xa0\x80": b"3",
    b"role": b"",
    b"thinkin": b"",
}


@pytest.mark.parametrize("form", [compiled, lambda: PURE], ids=["compiled", "python"])
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_member_is_the_value_of_the_last_one_with_the_decoded_key(form: object, key: bytes) -> None:
    backend: Backend = form()  # type: ignore[operator]
    scanned = backend.scan(BODY, backend.grammar(MESSAGES))
    assert scanned.member(key) == KEYS[key]
    assert scanned.member(key) == next((BODY[m.start : m.end] for m in reversed(scanned.members) if m.key == key), b"")
