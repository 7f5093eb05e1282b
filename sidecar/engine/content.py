"""An artifact's content, block by block: reads only what a range touches, and proves the digest of each block that it reads.

Nothing here holds more than a run of blocks, whatever the artifact's size, except the range that was asked for.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256

from sidecar.core.artifacts import decode_block
from sidecar.core.errors import CorruptedError
from sidecar.core.types import ArtifactRecord, SessionKey
from sidecar.ports import Store

__all__ = ["ContentView"]

_RUN_BLOCKS = 16  # about 1 MiB in one read of the store


class ContentView:
    """Random access to one artifact's content. Not for several threads at once."""

    def __init__(self, store: Store, key: SessionKey, record: ArtifactRecord, *, cache_blocks: int = 0) -> None:
        """View an artifact.

        Args:
            store: holds the raw item.
            key: session of the item.
            record: of the artifact.
            cache_blocks: keep this many blocks, for a caller that comes back to where it was.
        """
        self.record = record
        self._store = store
        self._key = key
        self._starts = [block.start for block in record.blocks]
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cache_blocks = cache_blocks

    def read(self, start: int, end: int) -> bytes:
        """Content of a range, 0 <= start <= end <= size_bytes. Costs the blocks that it touches."""
        if start == end:
            return b""
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end)
        base = self._starts[first]
        content = b"".join(self._blocks(first, last))
        return content[start - base : end - base]

    def line_start(self, line: int) -> int:
        """Where a line begins; the end of the content when it has not so many. Counts LF, binary or not. Costs one block."""
        if line <= 0:
            return 0
        # The LF that ends the line before is in the last block with fewer LF in front of it.
        index = bisect_left(self.record.blocks, line, key=lambda block: block.line) - 1
        if index < 0:
            return self.record.size_bytes
        content = next(self._blocks(index, index + 1))
        at = -1
        for _ in range(line - self.record.blocks[index].line):
            at = content.find(b"\n", at + 1)
            if at < 0:
                return self.record.size_bytes
        return self._starts[index] + at + 1

    def line_at(self, offset: int) -> int:
        """The line that a byte stands in: how many LF are before it. Costs one block."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return 0
        content = next(self._blocks(index, index + 1))
        return self.record.blocks[index].line + content.count(b"\n", 0, offset - self._starts[index])

    def prove(self) -> bool:
        """Read everything and prove the digest of the whole. O(size), in bounded memory.

        Returns:
            The content is UTF-8 throughout.

        Raises:
            CorruptedError: a block's digest, the whole digest or the size does not hold.
        """
        digest = sha256()
        size = 0
        decoder = codecs.getincrementaldecoder("utf-8")()
        is_utf8 = True
        for content in self._blocks(0, len(self._starts)):
            digest.update(content)
            size += len(content)
            is_utf8 = is_utf8 and _decodes(decoder, content)
        if digest.digest() != self.record.sha256 or size != self.record.size_bytes:
            raise CorruptedError(
                f"artifact {self.record.artifact_id} does not have its digest",
                hint="the store's folder was damaged; `trimtab check` lists all that is",
                artifact_id=self.record.artifact_id,
            )
        return is_utf8 and _decodes(decoder, b"", final=True)

    def _blocks(self, first: int, last: int) -> Iterator[bytes]:
        """Contents of the blocks first <= index < last, each proven."""
        index = first
        while index < last:
            if index in self._cache:
                self._cache.move_to_end(index)
                yield self._cache[index]
                index += 1
                continue
            past = index + 1
            while past < last and past - index < _RUN_BLOCKS and past not in self._cache:
                past += 1
            yield from self._load(index, past)
            index = past

    def _load(self, first: int, last: int) -> Iterator[bytes]:
        record = self.record
        blocks = record.blocks
        base = blocks[first].raw_start
        raw_size = record.end - record.start
        end = blocks[last].raw_start if last < len(blocks) else raw_size
        raw = self._store.read_item_range(self._key, record.number, record.start + base, record.start + end)
        for index in range(first, last):
            past = blocks[index + 1].raw_start if index + 1 < len(blocks) else raw_size
            content = decode_block(record, index, raw[blocks[index].raw_start - base : past - base])
            if self._cache_blocks:
                self._cache[index] = content
                if len(self._cache) > self._cache_blocks:
                    self._cache.popitem(last=False)
            yield content


def _decodes(decoder: codecs.IncrementalDecoder, content: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(content, final)
    except UnicodeDecodeError:
        return False
    return True
