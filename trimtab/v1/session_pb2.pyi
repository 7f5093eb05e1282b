from google.protobuf import timestamp_pb2 as _timestamp_pb2
from trimtab.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_FITTED: _ClassVar[EventKind]
    EVENT_KIND_EXTERNALIZED: _ClassVar[EventKind]
    EVENT_KIND_PRE_COMPACT: _ClassVar[EventKind]
    EVENT_KIND_POST_COMPACT: _ClassVar[EventKind]
    EVENT_KIND_ROLLED_BACK: _ClassVar[EventKind]
    EVENT_KIND_READ_BACK: _ClassVar[EventKind]
    EVENT_KIND_DELETED: _ClassVar[EventKind]
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_FITTED: EventKind
EVENT_KIND_EXTERNALIZED: EventKind
EVENT_KIND_PRE_COMPACT: EventKind
EVENT_KIND_POST_COMPACT: EventKind
EVENT_KIND_ROLLED_BACK: EventKind
EVENT_KIND_READ_BACK: EventKind
EVENT_KIND_DELETED: EventKind

class Session(_message.Message):
    __slots__ = ("ref", "format", "revision", "item_count", "raw_bytes", "stored_bytes", "artifact_count", "checkpoint_count", "last_pressure", "create_time", "update_time")
    REF_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.SessionRef
    format: _common_pb2.Format
    revision: int
    item_count: int
    raw_bytes: int
    stored_bytes: int
    artifact_count: int
    checkpoint_count: int
    last_pressure: _common_pb2.Pressure
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, ref: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., format: _Optional[_Union[_common_pb2.Format, str]] = ..., revision: _Optional[int] = ..., item_count: _Optional[int] = ..., raw_bytes: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., artifact_count: _Optional[int] = ..., checkpoint_count: _Optional[int] = ..., last_pressure: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("scope", "session_id_prefix", "page_size", "page_token")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    scope: str
    session_id_prefix: str
    page_size: int
    page_token: str
    def __init__(self, scope: _Optional[str] = ..., session_id_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReadItemsRequest(_message.Message):
    __slots__ = ("session", "start", "end")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    start: int
    end: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ReadItemsResponse(_message.Message):
    __slots__ = ("item_index", "items")
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    item_index: int
    items: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, item_index: _Optional[int] = ..., items: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("session", "page_size", "page_token")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    page_size: int
    page_token: str
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints", "next_page_token")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.Checkpoint]
    next_page_token: str
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[_common_pb2.Checkpoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("session", "request_id", "checkpoint_id", "expected_revision")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    request_id: str
    checkpoint_id: str
    expected_revision: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., request_id: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class RollbackResponse(_message.Message):
    __slots__ = ("checkpoint_ids", "revision")
    CHECKPOINT_IDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    checkpoint_ids: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    def __init__(self, checkpoint_ids: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ...) -> None: ...

class DeleteSessionResponse(_message.Message):
    __slots__ = ("existed",)
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    def __init__(self, existed: bool = ...) -> None: ...

class WatchSessionsRequest(_message.Message):
    __slots__ = ("scope", "session_id")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    scope: str
    session_id: str
    def __init__(self, scope: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class WatchSessionsResponse(_message.Message):
    __slots__ = ("kind", "session", "revision", "time", "detail", "before_bytes", "after_bytes", "lost_count")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AFTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOST_COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: EventKind
    session: _common_pb2.SessionRef
    revision: int
    time: _timestamp_pb2.Timestamp
    detail: str
    before_bytes: int
    after_bytes: int
    lost_count: int
    def __init__(self, kind: _Optional[_Union[EventKind, str]] = ..., session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., revision: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., detail: _Optional[str] = ..., before_bytes: _Optional[int] = ..., after_bytes: _Optional[int] = ..., lost_count: _Optional[int] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "formats", "default_limits", "max_message_bytes", "features")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_LIMITS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    version: str
    formats: _containers.RepeatedScalarFieldContainer[_common_pb2.Format]
    default_limits: _common_pb2.Limits
    max_message_bytes: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., formats: _Optional[_Iterable[_Union[_common_pb2.Format, str]]] = ..., default_limits: _Optional[_Union[_common_pb2.Limits, _Mapping]] = ..., max_message_bytes: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...
