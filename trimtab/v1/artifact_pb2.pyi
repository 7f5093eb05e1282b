from trimtab.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ByteRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class LineRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ReadArtifactRequest(_message.Message):
    __slots__ = ("session", "artifact_id", "bytes", "lines", "max_bytes")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    artifact_id: str
    bytes: ByteRange
    lines: LineRange
    max_bytes: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., artifact_id: _Optional[str] = ..., bytes: _Optional[_Union[ByteRange, _Mapping]] = ..., lines: _Optional[_Union[LineRange, _Mapping]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReadArtifactResponse(_message.Message):
    __slots__ = ("artifact", "content", "start", "next_start")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    NEXT_START_FIELD_NUMBER: _ClassVar[int]
    artifact: _common_pb2.Artifact
    content: bytes
    start: int
    next_start: int
    def __init__(self, artifact: _Optional[_Union[_common_pb2.Artifact, _Mapping]] = ..., content: _Optional[bytes] = ..., start: _Optional[int] = ..., next_start: _Optional[int] = ...) -> None: ...

class SearchArtifactsRequest(_message.Message):
    __slots__ = ("session", "artifact_id", "literal", "regex", "context_line_count", "page_size", "page_token")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    artifact_id: str
    literal: str
    regex: str
    context_line_count: int
    page_size: int
    page_token: str
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., artifact_id: _Optional[str] = ..., literal: _Optional[str] = ..., regex: _Optional[str] = ..., context_line_count: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class SearchHit(_message.Message):
    __slots__ = ("artifact_id", "line", "start", "text")
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    artifact_id: str
    line: int
    start: int
    text: bytes
    def __init__(self, artifact_id: _Optional[str] = ..., line: _Optional[int] = ..., start: _Optional[int] = ..., text: _Optional[bytes] = ...) -> None: ...

class SearchArtifactsResponse(_message.Message):
    __slots__ = ("hits", "next_page_token")
    HITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[SearchHit]
    next_page_token: str
    def __init__(self, hits: _Optional[_Iterable[_Union[SearchHit, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ("session", "page_size", "page_token")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    page_size: int
    page_token: str
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ("artifacts", "next_page_token")
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Artifact]
    next_page_token: str
    def __init__(self, artifacts: _Optional[_Iterable[_Union[_common_pb2.Artifact, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
