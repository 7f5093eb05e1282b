"""Searching artifacts: the same hits as a plain search over each line, on whatever pages they come, within bounds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.errors import ArtifactNotFoundError, InvalidFieldError, PageTokenInvalidError, PatternInvalidError
from sidecar.core.types import SessionKey
from sidecar.engine import search as search_module
from sidecar.engine.artifacts import ArtifactReader
from sidecar.engine.patterns import RegexPattern
from sidecar.engine.searcher import Hit
from store.store import LmdbStore
from tests.engine.counting import CountingStore
from tests.engine.held import Held

Make = Callable[[], Held]

CONTENTS = st.builds(
    lambda parts, times: b"".join(parts) * times,
    st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"\n\n", b" ", "é".encode(), b"\xff", b"\0", b"x" * 30]), max_size=12),
    st.sampled_from([1, 2, 7]),
)
LITERALS = st.sampled_from([b"a", b"ab", b"\n", b"a\n", b"b\nb", b"\xff", "é".encode(), b"xx", b"\n\n", b"\0"])
REGEXES = st.sampled_from(
    [
        "a",
        "a+",
        "^a",
        "b$",
        "^$",
        "^",
        "$",
        "a|b",
        "x*",
        "(?i)A",
        r"\bab\b",
        "[^a]+",
        "a.b",
        r"\s+",
        r"x{3}",
        "b?",
        r"[a\n]b",
        "(a)(b)",
    ]
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensure that what is found does not hang on where content is cut."""
    monkeypatch.setattr(search_module, "PIECE_BYTES", 16)


def naive_literal(content: bytes, literal: bytes) -> Iterator[tuple[int, int]]:
    at = content.find(literal)
    while at >= 0:
        yield content.count(b"\n", 0, at), at
        at = content.find(literal, at + len(literal))


def naive_regex(content: bytes, regex: str) -> Iterator[tuple[int, int]]:
    """Each line by itself; a match of nothing counts as the first of its line, and ends the line's hits."""
    pattern = re.compile(regex.encode())
    start = 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines):
        at, found = 0, False
        while match := pattern.search(line, at):
            empty = match.end() == match.start()
            if not (empty and found):
                yield number, start + match.start()
            found = True
            if empty:
                break
            at = match.end()
        start += len(line) + 1


def all_hits(reader: ArtifactReader, key: SessionKey, page_size: int, **question: object) -> list[Hit]:
    """Every page."""
    hits: list[Hit] = []
    token = ""
    while True:
        page, token = reader.search(key, page_size=page_size, page_token=token, **question)  # type: ignore[arg-type]
        assert len(page) <= page_size
        hits += page
        if not token:
            return hits


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(CONTENTS, min_size=1, max_size=3), literal=LITERALS, page_size=st.sampled_from([1, 2, 1000]))
def test_search_for_any_literal_equals_a_plain_search(
    store: LmdbStore, held: Make, contents: list[bytes], literal: bytes, page_size: int
) -> None:
    session = held()
    records = [session.add_text(content) for content in contents]
    distinct = {record.artifact_id: content for record, content in zip(records, contents, strict=True)}
    expected = [(artifact_id, *hit) for artifact_id, content in distinct.items() for hit in naive_literal(content, literal)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "PIECE_BYTES", 16)
        found = all_hits(ArtifactReader(store), session.key, page_size, literal=literal)
    assert [hit[:3] for hit in found] == expected
    assert [hit[:3] for hit in all_hits(ArtifactReader(store), session.key, 1000, literal=literal)] == expected


@settings(max_examples=150, deadline=None)
@given(contents=st.lists(CONTENTS, min_size=1, max_size=2), regex=REGEXES, page_size=st.sampled_from([1, 3, 1000]))
def test_search_for_any_regex_equals_a_plain_search_of_each_line(
    store: LmdbStore, held: Make, contents: list[bytes], regex: str, page_size: int
) -> None:
    session = held()
    # Where the content is UTF-8, RE2 sees characters and the reference sees bytes: with these patterns only "é" would tell.
    contents = [content.replace("é".encode(), b"e") for content in contents]
    records = [session.add_text(content) for content in contents]
    distinct = {record.artifact_id: content for record, content in zip(records, contents, strict=True)}
    expected = [(artifact_id, *hit) for artifact_id, content in distinct.items() for hit in naive_regex(content, regex)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "PIECE_BYTES", 16)
        found = all_hits(ArtifactReader(store), session.key, page_size, regex=regex)
    assert [hit[:3] for hit in found] == expected
    assert [hit[:3] for hit in all_hits(ArtifactReader(store), session.key, 1000, regex=regex)] == expected


def one_hit(store: LmdbStore, session: Held, **question: object) -> Hit:
    hits, token = ArtifactReader(store).search(session.key, **question)  # type: ignore[arg-type]
    assert (len(hits), token) == (1, "")
    return hits[0]


def test_search_by_regex_sees_characters_in_text_and_bytes_elsewhere(store: LmdbStore, held: Make) -> None:
    text = held()
    text.add_text("naïve caf\u00e9s".encode())
    assert one_hit(store, text, regex="na.ve").start == 0
    assert one_hit(store, text, regex="[àáâé]s$").start == 10
    assert one_hit(store, text, regex="(?i)CAFÉ").start == 7
    raw = held()
    raw.add_text(b"na\xffve " + "café".encode())
    assert one_hit(store, raw, regex="na.ve").start == 0
    assert one_hit(store, raw, regex=r"\xff").start == 2
    assert one_hit(store, raw, regex="caf[àé]").start == 6


def test_search_of_media_finds_bytes(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_media(b"\x89PNG\r\n\x1a\n" + b"\0" * 70_000 + b"IEND")
    assert one_hit(store, session, literal=b"IEND") == Hit(record.artifact_id, 2, 70_008, b"\0" * 8_192 + b"IEND")
    assert one_hit(store, session, regex=r"\x89PN.").start == 0


@pytest.mark.parametrize(
    ("context", "text"),
    [(0, b"line 5"), (1, b"line 4\nline 5\nline 6"), (2, b"line 3\nline 4\nline 5\nline 6\nline 7"), (100, None)],
)
def test_search_shows_the_line_with_its_context(store: LmdbStore, held: Make, context: int, text: bytes | None) -> None:
    session = held()
    content = b"".join(b"line %d\n" % number for number in range(10))
    session.add_text(content)
    hit = one_hit(store, session, literal="e 5", context_line_count=context)
    assert (hit.line, hit.start) == (5, 38)
    assert hit.text == (content[:-1] if text is None else text)


def test_search_shows_context_over_block_ends(store: LmdbStore, held: Make) -> None:
    session = held()
    content = b"".join(b"%06d\n" % number for number in range(30_000))
    session.add_text(content)
    lines = content.split(b"\n")
    for number in (9_361, 9_362, 9_363, 18_724, 18_725):  # around 64 KiB and 128 KiB
        hit = one_hit(store, session, literal=lines[number], context_line_count=3)
        assert (hit.line, hit.start) == (number, 7 * number)
        assert hit.text == b"\n".join(lines[number - 3 : number + 4])


def test_search_cuts_the_text_of_a_long_line_around_the_hit_on_characters(store: LmdbStore, held: Make) -> None:
    session = held()
    content = "é".encode() * 100_000 + b"here" + "é".encode() * 100_001
    session.add_text(content)
    for shift in (b"", b"x"):
        session.add_text(shift + content)
    hits = all_hits(ArtifactReader(store), session.key, 10, literal="here")
    assert [hit.start for hit in hits] == [200_000, 200_001]
    for hit in hits:
        text = hit.text.decode()
        assert len(hit.text) <= 16_384
        assert len(hit.text) >= 16_380
        assert text.strip("é") == "here"


def test_search_of_one_artifact_leaves_others_out(store: LmdbStore, held: Make) -> None:
    session = held()
    session.add_text(b"needle 1")
    two = session.add_text(b"needle 2")
    assert one_hit(store, session, artifact_id=two.artifact_id.upper(), literal="needle").artifact_id == two.artifact_id
    with pytest.raises(ArtifactNotFoundError):
        ArtifactReader(store).search(session.key, artifact_id="0" * 32, literal="needle")


def test_search_of_a_session_without_artifacts_finds_nothing(store: LmdbStore, held: Make) -> None:
    session = held()
    session.add_plain("needle")
    assert ArtifactReader(store).search(session.key, literal="needle") == ([], "")


@pytest.mark.parametrize(
    "regex", ["(", "a{1001}", r"\1", "(?=a)", "a)b(", "", "[", "x" * 4_097, r"\pL{1000}", "é{1000}" * 20, "(?:a{30}){30}{30}"]
)
def test_search_with_a_bad_regex_raises(store: LmdbStore, held: Make, regex: str) -> None:
    session = held()
    session.add_text(b"x")
    with pytest.raises(PatternInvalidError):
        ArtifactReader(store).search(session.key, regex=regex)


@pytest.mark.parametrize("literal", ["", b"", b"x" * 4_097, "é" * 2_049])
def test_search_with_a_bad_literal_raises(store: LmdbStore, held: Make, literal: bytes | str) -> None:
    session = held()
    session.add_text(b"x")
    with pytest.raises(PatternInvalidError):
        ArtifactReader(store).search(session.key, literal=literal)


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"literal": "a", "regex": "a"},
        {"literal": "a", "page_size": -1},
        {"literal": "a", "context_line_count": -1},
        {"literal": "a", "context_line_count": 101},
    ],
)
def test_search_with_a_bad_field_raises(store: LmdbStore, held: Make, question: dict[str, object]) -> None:
    session = held()
    session.add_text(b"x")
    with pytest.raises(InvalidFieldError):
        ArtifactReader(store).search(session.key, **question)  # type: ignore[arg-type]


def test_search_token_is_bound_to_the_question_but_not_to_the_page_size(store: LmdbStore, held: Make) -> None:
    session, other = held(), held()
    for each in (session, other):
        record = each.add_text(b"a b a b\na")
    reader = ArtifactReader(store)
    _, token = reader.search(session.key, literal="a", page_size=1)
    hits, after = reader.search(session.key, literal="a", page_size=5, page_token=token)
    assert ([hit.start for hit in hits], after) == ([4, 8], "")
    wrong: list[tuple[SessionKey, dict[str, object]]] = [
        (session.key, {"literal": "b"}),
        (session.key, {"regex": "a"}),
        (session.key, {"literal": "a", "context_line_count": 1}),
        (session.key, {"literal": "a", "artifact_id": record.artifact_id}),
        (other.key, {"literal": "a"}),
    ]
    for key, question in wrong:
        with pytest.raises(PageTokenInvalidError):
            reader.search(key, page_token=token, **question)  # type: ignore[arg-type]


def test_search_stops_at_its_scan_limit_and_goes_on(store: LmdbStore, held: Make) -> None:
    session = held()
    records = [session.add_text(b"%d filler line\n" % number * 40_000 + b"needle\n") for number in range(4)]
    counting = CountingStore(store)
    reader = ArtifactReader(counting, max_scan_bytes=300_000)  # type: ignore[arg-type]
    for record in records:
        reader.verify(session.key, record.artifact_id)
    found: list[int] = []
    pages = 0
    token = ""
    while pages == 0 or token:
        counting.read_bytes = 0
        hits, token = reader.search(session.key, literal="needle", page_token=token)
        assert counting.read_bytes <= 300_000 + 262_144 + 2 * 80_000
        found += [hit.line for hit in hits]
        pages += 1
    assert found == [40_000] * 4
    assert pages >= 5


def test_search_counts_small_artifacts_towards_its_limit(store: LmdbStore, held: Make) -> None:
    session = held()
    for number in range(30):
        session.add_text(b"small %d" % number)
    reader = ArtifactReader(store, max_scan_bytes=40_960)
    hits, token = reader.search(session.key, literal="small")
    assert len(hits) == 10
    assert token
    assert len(all_hits(reader, session.key, 1000, literal="small")) == 30


def test_search_finds_a_literal_over_every_cut_of_a_long_line(store: LmdbStore, held: Make, small_pieces: None) -> None:
    session = held()
    record = session.add_text(b"0123456789" * 30 + b"needle" * 3 + b"0123456789" * 3)
    hits, _ = ArtifactReader(store).search(session.key, literal="needle")
    assert [(hit.artifact_id, hit.line, hit.start) for hit in hits] == [(record.artifact_id, 0, at) for at in (300, 306, 312)]


@pytest.mark.parametrize(
    ("regex", "starts"), [("^a", [0]), (r"\ba", [0]), ("a$", [599]), (r"a\b", [599]), ("^", [0]), ("$", [600])]
)
def test_search_sees_what_stands_around_a_cut(
    store: LmdbStore, held: Make, small_pieces: None, monkeypatch: pytest.MonkeyPatch, regex: str, starts: list[int]
) -> None:
    """Ensure that neither the end of a piece nor that of a page is taken for the end of a line or a word."""
    monkeypatch.setattr(RegexPattern, "overlap_bytes", 4)
    session = held()
    session.add_text(b"a" * 600)
    assert [hit.start for hit in all_hits(ArtifactReader(store), session.key, 1, regex=regex)] == starts


def test_search_by_hostile_regex_ends_in_bounded_time(store: LmdbStore, held: Make) -> None:
    """Ensure that a pattern that defeats the automaton's cache costs the call its time limit, about, and not minutes."""
    session = held()
    content = "".join("ab"[bit == "1"] for bit in f"{3**600_000 % 2**1_000_000:01000000b}").encode()
    session.add_text(content)
    reader = ArtifactReader(store, max_scan_seconds=0.2)
    began = time.monotonic()
    hits, token = reader.search(session.key, regex="(?:a|b)*a(?:a|b){200}c")
    assert time.monotonic() - began < 20
    assert hits == []
    assert token


def test_search_of_many_matches_of_nothing_is_one_a_line(store: LmdbStore, held: Make) -> None:
    session = held()
    session.add_text(b"a" * 500_000 + b"\n" + b"b" * 500_000)
    began = time.monotonic()
    hits, token = ArtifactReader(store).search(session.key, regex="x*")
    assert ([(hit.line, hit.start) for hit in hits], token) == ([(0, 0), (1, 500_001)], "")
    assert time.monotonic() - began < 5


def test_search_range_goes_on_by_bytes(store: LmdbStore, held: Make) -> None:
    session = held()
    record = session.add_text(b"a1\na2\na3\na4\n")
    reader = ArtifactReader(store)
    question = {"literal": "a", "before_bytes": 0, "after_bytes": 10}
    _, hits, after = reader.search_range(session.key, record.artifact_id, want=2, byte_range=(1, None), **question)  # type: ignore[arg-type]
    assert ([(hit.line, hit.start, hit.text) for hit in hits], after) == ([(1, 3, b"a2"), (2, 6, b"a3")], 7)
    _, hits, after = reader.search_range(session.key, record.artifact_id, byte_range=(7, 9), **question)  # type: ignore[arg-type]
    assert (hits, after) == ([], None)
    _, hits, after = reader.search_range(session.key, record.artifact_id, byte_range=(7, 10), **question)  # type: ignore[arg-type]
    assert ([hit.start for hit in hits], after) == ([9], None)
