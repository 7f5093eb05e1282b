"""Token counts: estimates err high, what was reported is carried forward, and what is unknown stays unknown.

The bound is held against counts of two real tokenizers, `cl100k_base` and `o200k_base`, taken with `bpe-openai` 0.1.4 (PyPI; it
ships both vocabularies, 41 MB, too much for this project's tests to install). Where a vendor's vocabulary is not public, one
token for each byte is the most that any byte-level tokenizer can give, and one for 1.5 bytes the most that was seen.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.tokens import BYTES_PER_TOKEN_LOW, MEDIA_TOKENS, Ratio, cache_lost, estimate_tokens
from sidecar.core.types import UsageFigures


def _hex(count: int) -> str:
    return " ".join(hashlib.sha256(b"%d" % index).hexdigest() for index in range(count))


def _uuids(count: int) -> str:
    digests = [hashlib.md5(b"%d" % index).hexdigest() for index in range(count)]
    return "\n".join(f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in digests)


def _bytes(size: int) -> bytes:
    return b"".join(hashlib.sha256(b"b%d" % index).digest() for index in range(size // 32))


def _rare(first: int, last: int, count: int) -> str:
    rand = random.Random(1)
    return "".join(chr(rand.randrange(first, last)) for _ in range(count))


_CODE = '''
def merge(older: dict[str, int], newer: dict[str, int]) -> dict[str, int]:
    """Newer values win; the order first given is kept."""
    merged = dict(older)
    for key, value in newer.items():
        if value != merged.get(key, -1):
            merged[key] = value
    return {k: v for k, v in merged.items() if v >= 0 and not k.startswith("__")}
'''

SAMPLES: dict[str, tuple[Callable[[], str], int, int]] = {
    # name: (text, tokens by cl100k_base, tokens by o200k_base)
    "english": (lambda: "The quick brown fox jumps over the lazy dog. " * 40, 401, 401),
    "code": (lambda: _CODE * 5, 485, 485),
    "json": (lambda: json.dumps([{"id": n * 7919 % 10007, "ok": n % 2 == 0, "none": None} for n in range(60)]), 1016, 1016),
    "cjk": (lambda: "今天天气很好，我们一起去公园散步吧。漢字仮名交じり文は難しい。안녕하세요 세계" * 10, 470, 290),
    "rare cjk": (lambda: _rare(0x4E00, 0x9FA5, 400), 926, 765),
    "thai": (lambda: "สวัสดีชาวโลกนี่คือการทดสอบ" * 20, 460, 260),
    "hindi": (lambda: "नमस्ते दुनिया यह एक परीक्षण है " * 20, 620, 162),
    "arabic": (lambda: "مرحبا بالعالم هذا اختبار " * 20, 361, 121),
    "emoji": (lambda: "🙂🚀👩‍👩‍👧‍👦🇩🇪🎉🫠" * 20, 700, 460),
    "rare emoji": (lambda: _rare(0x1F300, 0x1F5FF, 200), 579, 447),
    "emoji in text": (lambda: "Done 🎉 all tests pass ✅ shipping it 🚀 now. " * 20, 321, 261),
    "combining": (
        lambda: unicodedata.normalize("NFD", "Tiếng Việt có dấu được viết tách rời, như trong tên tệp của macOS. ") * 20,
        1262,
        1061,
    ),
    "base64": (lambda: base64.b64encode(_bytes(3200)).decode(), 3093, 2947),
    "base64 in lines": (lambda: base64.encodebytes(_bytes(3200)).decode(), 3157, 3013),
    "hex": (lambda: _hex(40), 1491, 1496),
    "uuids": (lambda: _uuids(40), 970, 969),
    "numbers": (lambda: " ".join(str(n * 982_451_653 % 10**12) for n in range(100)), 495, 495),
    "paths": (lambda: "\n".join(f"src/package_{n}/module_{n}/test_file_{n}.py:{n}: error" for n in range(60)), 1019, 1019),
}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_estimate_tokens_errs_high_of_real_tokenizers(name: str) -> None:
    text, *counts = SAMPLES[name]
    estimate = estimate_tokens(json.dumps(text(), ensure_ascii=False).encode())
    assert min(counts) > 0
    assert estimate >= max(counts)


@pytest.mark.parametrize("name", ["english", "code", "json"])
def test_estimate_tokens_of_plain_text_errs_by_less_than_three_times(name: str) -> None:
    text, *counts = SAMPLES[name]
    assert estimate_tokens(json.dumps(text()).encode()) <= 3 * max(counts)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_estimate_tokens_of_escaped_text_is_not_lower(name: str) -> None:
    """Ensure that a client that writes \\uXXXX gets no smaller estimate: the provider counts the same characters."""
    text, *counts = SAMPLES[name]
    assert estimate_tokens(json.dumps(text()).encode()) >= max(counts)


@given(st.binary(max_size=3000))
def test_estimate_tokens_of_any_bytes_is_between_half_and_all_of_them(data: bytes) -> None:
    assert len(data) <= 2 * estimate_tokens(data)
    assert estimate_tokens(data) <= len(data)


def test_estimate_tokens_of_a_long_run_is_byte_for_byte() -> None:
    assert estimate_tokens(b"x" * 5000) == 5000
    assert estimate_tokens(b"word " * 1000) == 2500


def test_estimate_tokens_charges_media_by_piece() -> None:
    text, media = b'{"text":"see the pictures"}', b"A" * 40_000
    assert estimate_tokens(text + media, len(media), 2) == estimate_tokens(text) + 2 * MEDIA_TOKENS
    assert estimate_tokens(b"") == 0


def test_estimate_tokens_never_counts_media_as_less_than_nothing() -> None:
    assert estimate_tokens(b"ab", 5000, 1) == MEDIA_TOKENS


@pytest.mark.parametrize("run", [31, 32, 511, 512, 50_000])
def test_estimate_tokens_without_blanks_takes_linear_time(run: int) -> None:
    data = (b"x" * run + b" ") * (1_000_000 // run)
    start = time.perf_counter()
    estimate_tokens(data)
    assert time.perf_counter() - start < 1  # about 30 ms; a run read anew from each of its bytes took 4 s


# Ratio


def test_ratio_without_usage_is_unknown_and_low() -> None:
    ratio = Ratio()
    assert not ratio.known
    assert ratio.bytes_per_token() == BYTES_PER_TOKEN_LOW == 2.0


@pytest.mark.parametrize("usage", [UsageFigures(), UsageFigures(input_tokens=0), UsageFigures(output_tokens=9)])
def test_ratio_of_a_count_that_was_not_measured_stays_unknown(usage: UsageFigures) -> None:
    ratio = Ratio()
    ratio = ratio.learned(10_000, usage)
    assert not ratio.known
    ratio = ratio.learned(10_000, UsageFigures(input_tokens=2_500))
    ratio = ratio.learned(20_000, usage)
    assert ratio.tokens_of(10_000) == 2_500


def test_ratio_of_a_reported_count_carries_it_forward() -> None:
    ratio = Ratio()
    ratio = ratio.learned(10_000, UsageFigures(input_tokens=2_500))
    assert ratio.known
    assert ratio.bytes_per_token() == 4.0
    assert [ratio.tokens_of(size) for size in (10_000, 14_000, 6_000)] == [2_500, 3_500, 1_500]


def test_ratio_of_the_newest_count_holds() -> None:
    ratio = Ratio()
    ratio = ratio.learned(10_000, UsageFigures(input_tokens=2_500))
    ratio = ratio.learned(30_000, UsageFigures(input_tokens=10_000))
    assert ratio.tokens_of(30_000) == 10_000
    assert ratio.bytes_per_token() == 3.0


def test_ratio_is_never_under_half_a_byte() -> None:
    ratio = Ratio()
    ratio = ratio.learned(10, UsageFigures(input_tokens=10_000))
    assert ratio.bytes_per_token() == 0.5


# The provider's cache


@pytest.mark.parametrize(
    ("usage", "idle_ms", "ttl_ms", "lost"),
    [
        (None, 0, 0, False),
        (None, 10**9, 0, False),  # no time was told
        (None, 300_000, 300_000, False),
        (None, 300_001, 300_000, True),
        (UsageFigures(input_tokens=900, cached_input_tokens=0), 0, 0, True),
        (UsageFigures(input_tokens=900, cached_input_tokens=1), 0, 0, False),
        (UsageFigures(input_tokens=900), 0, 0, False),  # not reported is not zero
        (UsageFigures(cached_input_tokens=0), 0, 0, False),
        (UsageFigures(input_tokens=0, cached_input_tokens=0), 0, 0, False),
        (UsageFigures(input_tokens=900, cached_input_tokens=800), 300_001, 300_000, True),
    ],
)
def test_cache_lost_only_when_it_is_known(usage: UsageFigures | None, idle_ms: int, ttl_ms: int, lost: bool) -> None:
    assert cache_lost(usage, idle_ms, ttl_ms) is lost
