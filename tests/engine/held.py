"""A session with artifacts in a real store: what tests of reading back start from."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from sidecar.core.artifacts import build_artifact
from sidecar.core.types import (
    ArtifactRecord,
    ArtifactSource,
    CallKey,
    Encoding,
    Format,
    ItemMeta,
    JournalItem,
    SessionKey,
)
from sidecar.ports import Batch, SessionHead
from store.store import LmdbStore

__all__ = ["KEY", "Held", "json_string", "open_store"]

KEY = SessionKey("", "run")
QUOTA_BYTES = 1 << 30


@contextmanager
def open_store(folder: Path | None = None) -> Iterator[LmdbStore]:
    """A store in a scratch folder."""
    with TemporaryDirectory() as scratch:
        store = LmdbStore(folder or scratch, quota_bytes=QUOTA_BYTES, map_bytes=1 << 31)
        try:
            yield store
        finally:
            store.close()


def json_string(content: bytes) -> bytes:
    """A JSON string, quotes excluded, whose content is `content`: escapes where JSON wants them, invalid UTF-8 as it is."""
    out = bytearray()
    for byte in content:
        if byte in b'"\\' or byte < 0x20:
            out += b"\\u%04x" % byte
        else:
            out.append(byte)
    return bytes(out)


class Held:
    """Adds items with artifacts to one session."""

    def __init__(self, store: LmdbStore, key: SessionKey = KEY) -> None:
        self.store = store
        self.key = key
        self.count = 0
        self.revision = 0

    def add(
        self,
        raw: bytes,
        encoding: Encoding = Encoding.JSON_STRING,
        *,
        media_type: str = "",
        before: bytes = b'{"role":"tool","content":',
        call: CallKey | None = None,
        tool_name: str = "read_file",
    ) -> ArtifactRecord:
        """Store an item that holds `raw` (quotes excluded), and an artifact on it."""
        quote = b"" if encoding is Encoding.JSON else b'"'
        start = len(before) + len(quote)
        item = before + quote + raw + quote + b"}"
        number = self.count
        record, _ = build_artifact(
            item, number, start, start + len(raw), encoding, media_type=media_type, create_ms=1_000 + number
        )
        large = ((start, start + len(raw)),) if len(raw) > 16_384 and encoding is not Encoding.JSON else ()
        meta = ItemMeta(number, sha256(item).digest(), b"", crc32(item), len(item))
        known = self.store.read_artifact(self.key, record.artifact_id)
        source = ArtifactSource(record.artifact_id, number, (b"content",), tool_name, call, False, 1_000 + number)
        self.count += 1
        self.revision += 1
        self.submit(
            items=[JournalItem(meta, item, large)], artifacts=[] if known else [record], sources=[source], base_number=number
        )
        return known or record

    def add_text(self, content: bytes, **more: object) -> ArtifactRecord:
        """An artifact of text."""
        return self.add(json_string(content), **more)  # type: ignore[arg-type]

    def add_media(self, content: bytes, media_type: str = "image/png") -> ArtifactRecord:
        """An artifact of base64 media."""
        return self.add(base64.b64encode(content), Encoding.BASE64_STRING, media_type=media_type)

    def add_plain(self, text: str) -> int:
        """An item without an artifact; its number."""
        item = json.dumps({"role": "user", "content": text}).encode()
        number = self.count
        self.count += 1
        meta = ItemMeta(number, sha256(item).digest(), b"", crc32(item), len(item))
        self.submit(items=[JournalItem(meta, item)], base_number=number)
        return number

    def submit(self, *, branch: tuple[tuple[int, int], ...] | None = None, update_ms: int = 2_000, **parts: object) -> None:
        """Write a batch and wait."""
        base_number = int(parts.pop("base_number", self.count))  # type: ignore[call-overload]
        summary = self.store.summary(self.key)
        head = SessionHead(
            format=Format.OPENAI_CHAT,
            revision=self.revision,
            branch=((0, self.count),) if branch is None else branch,
            create_ms=1_000,
            update_ms=update_ms,
        )
        base_revision = summary.head.revision if summary else 0
        self.store.submit(Batch(self.key, base_number, base_revision, head, **parts)).result()  # type: ignore[arg-type]
