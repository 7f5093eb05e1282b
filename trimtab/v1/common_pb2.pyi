from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORMAT_UNSPECIFIED: _ClassVar[Format]
    FORMAT_OPENAI_CHAT: _ClassVar[Format]
    FORMAT_OPENAI_RESPONSES: _ClassVar[Format]
    FORMAT_ANTHROPIC_MESSAGES: _ClassVar[Format]
    FORMAT_GEMINI: _ClassVar[Format]
    FORMAT_BEDROCK_CONVERSE: _ClassVar[Format]

class Preset(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRESET_UNSPECIFIED: _ClassVar[Preset]
    PRESET_BALANCED: _ClassVar[Preset]
    PRESET_MINIMAL: _ClassVar[Preset]
    PRESET_WINDOW: _ClassVar[Preset]

class TokenBasis(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_BASIS_UNSPECIFIED: _ClassVar[TokenBasis]
    TOKEN_BASIS_UNKNOWN: _ClassVar[TokenBasis]
    TOKEN_BASIS_REPORTED: _ClassVar[TokenBasis]
    TOKEN_BASIS_CALIBRATED: _ClassVar[TokenBasis]
    TOKEN_BASIS_COUNTED: _ClassVar[TokenBasis]
    TOKEN_BASIS_ESTIMATED: _ClassVar[TokenBasis]

class WorkState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORK_STATE_UNSPECIFIED: _ClassVar[WorkState]
    WORK_STATE_OPEN: _ClassVar[WorkState]
    WORK_STATE_IN_PROGRESS: _ClassVar[WorkState]
    WORK_STATE_BLOCKED: _ClassVar[WorkState]
    WORK_STATE_DONE: _ClassVar[WorkState]
    WORK_STATE_DROPPED: _ClassVar[WorkState]

class EffectState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_STATE_UNSPECIFIED: _ClassVar[EffectState]
    EFFECT_STATE_PENDING: _ClassVar[EffectState]
    EFFECT_STATE_SETTLED: _ClassVar[EffectState]
    EFFECT_STATE_FAILED: _ClassVar[EffectState]
    EFFECT_STATE_UNKNOWN: _ClassVar[EffectState]
    EFFECT_STATE_WAITING: _ClassVar[EffectState]
    EFFECT_STATE_NOT_STARTED: _ClassVar[EffectState]

class CompactMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPACT_MODE_UNSPECIFIED: _ClassVar[CompactMode]
    COMPACT_MODE_EXTEND: _ClassVar[CompactMode]
    COMPACT_MODE_REDERIVE: _ClassVar[CompactMode]
FORMAT_UNSPECIFIED: Format
FORMAT_OPENAI_CHAT: Format
FORMAT_OPENAI_RESPONSES: Format
FORMAT_ANTHROPIC_MESSAGES: Format
FORMAT_GEMINI: Format
FORMAT_BEDROCK_CONVERSE: Format
PRESET_UNSPECIFIED: Preset
PRESET_BALANCED: Preset
PRESET_MINIMAL: Preset
PRESET_WINDOW: Preset
TOKEN_BASIS_UNSPECIFIED: TokenBasis
TOKEN_BASIS_UNKNOWN: TokenBasis
TOKEN_BASIS_REPORTED: TokenBasis
TOKEN_BASIS_CALIBRATED: TokenBasis
TOKEN_BASIS_COUNTED: TokenBasis
TOKEN_BASIS_ESTIMATED: TokenBasis
WORK_STATE_UNSPECIFIED: WorkState
WORK_STATE_OPEN: WorkState
WORK_STATE_IN_PROGRESS: WorkState
WORK_STATE_BLOCKED: WorkState
WORK_STATE_DONE: WorkState
WORK_STATE_DROPPED: WorkState
EFFECT_STATE_UNSPECIFIED: EffectState
EFFECT_STATE_PENDING: EffectState
EFFECT_STATE_SETTLED: EffectState
EFFECT_STATE_FAILED: EffectState
EFFECT_STATE_UNKNOWN: EffectState
EFFECT_STATE_WAITING: EffectState
EFFECT_STATE_NOT_STARTED: EffectState
COMPACT_MODE_UNSPECIFIED: CompactMode
COMPACT_MODE_EXTEND: CompactMode
COMPACT_MODE_REDERIVE: CompactMode

class SessionRef(_message.Message):
    __slots__ = ("scope", "session_id")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    scope: str
    session_id: str
    def __init__(self, scope: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class CallRef(_message.Message):
    __slots__ = ("call_id", "item_index", "call_index")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    CALL_INDEX_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    item_index: int
    call_index: int
    def __init__(self, call_id: _Optional[str] = ..., item_index: _Optional[int] = ..., call_index: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("preset", "soft_bytes", "target_bytes", "hard_bytes", "min_saving_bytes", "externalize_bytes", "keep_unit_count", "keep_result_tokens", "compact_target_bytes", "compact_min_saving_bytes", "summary_bytes", "window_tokens", "reply_tokens", "cache_ttl_ms")
    PRESET_FIELD_NUMBER: _ClassVar[int]
    SOFT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    HARD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_SAVING_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXTERNALIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEP_UNIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_TARGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPACT_MIN_SAVING_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_BYTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REPLY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    preset: Preset
    soft_bytes: int
    target_bytes: int
    hard_bytes: int
    min_saving_bytes: int
    externalize_bytes: int
    keep_unit_count: int
    keep_result_tokens: int
    compact_target_bytes: int
    compact_min_saving_bytes: int
    summary_bytes: int
    window_tokens: int
    reply_tokens: int
    cache_ttl_ms: int
    def __init__(self, preset: _Optional[_Union[Preset, str]] = ..., soft_bytes: _Optional[int] = ..., target_bytes: _Optional[int] = ..., hard_bytes: _Optional[int] = ..., min_saving_bytes: _Optional[int] = ..., externalize_bytes: _Optional[int] = ..., keep_unit_count: _Optional[int] = ..., keep_result_tokens: _Optional[int] = ..., compact_target_bytes: _Optional[int] = ..., compact_min_saving_bytes: _Optional[int] = ..., summary_bytes: _Optional[int] = ..., window_tokens: _Optional[int] = ..., reply_tokens: _Optional[int] = ..., cache_ttl_ms: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "cached_input_tokens", "output_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., cached_input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class Pressure(_message.Message):
    __slots__ = ("total_bytes", "system_bytes", "tools_bytes", "user_bytes", "assistant_bytes", "reasoning_bytes", "call_bytes", "result_bytes", "media_bytes", "other_bytes", "tokens", "token_basis")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_BYTES_FIELD_NUMBER: _ClassVar[int]
    USER_BYTES_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASONING_BYTES_FIELD_NUMBER: _ClassVar[int]
    CALL_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEDIA_BYTES_FIELD_NUMBER: _ClassVar[int]
    OTHER_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BASIS_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    system_bytes: int
    tools_bytes: int
    user_bytes: int
    assistant_bytes: int
    reasoning_bytes: int
    call_bytes: int
    result_bytes: int
    media_bytes: int
    other_bytes: int
    tokens: int
    token_basis: TokenBasis
    def __init__(self, total_bytes: _Optional[int] = ..., system_bytes: _Optional[int] = ..., tools_bytes: _Optional[int] = ..., user_bytes: _Optional[int] = ..., assistant_bytes: _Optional[int] = ..., reasoning_bytes: _Optional[int] = ..., call_bytes: _Optional[int] = ..., result_bytes: _Optional[int] = ..., media_bytes: _Optional[int] = ..., other_bytes: _Optional[int] = ..., tokens: _Optional[int] = ..., token_basis: _Optional[_Union[TokenBasis, str]] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("artifact_id", "call", "item_index", "note")
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    artifact_id: str
    call: CallRef
    item_index: int
    note: str
    def __init__(self, artifact_id: _Optional[str] = ..., call: _Optional[_Union[CallRef, _Mapping]] = ..., item_index: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class Criterion(_message.Message):
    __slots__ = ("id", "text", "revoked")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    revoked: bool
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., revoked: bool = ...) -> None: ...

class Constraint(_message.Message):
    __slots__ = ("id", "text", "source", "revoked")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    source: Source
    revoked: bool
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., source: _Optional[_Union[Source, _Mapping]] = ..., revoked: bool = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("id", "text", "sources", "revoked")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    revoked: bool
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., revoked: bool = ...) -> None: ...

class WorkItem(_message.Message):
    __slots__ = ("id", "text", "state", "evidence")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    state: WorkState
    evidence: _containers.RepeatedCompositeFieldContainer[Source]
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., state: _Optional[_Union[WorkState, str]] = ..., evidence: _Optional[_Iterable[_Union[Source, _Mapping]]] = ...) -> None: ...

class Anchors(_message.Message):
    __slots__ = ("goal", "success_criteria", "constraints", "decisions", "work")
    GOAL_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_CRITERIA_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    goal: str
    success_criteria: _containers.RepeatedCompositeFieldContainer[Criterion]
    constraints: _containers.RepeatedCompositeFieldContainer[Constraint]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    work: _containers.RepeatedCompositeFieldContainer[WorkItem]
    def __init__(self, goal: _Optional[str] = ..., success_criteria: _Optional[_Iterable[_Union[Criterion, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[Constraint, _Mapping]]] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., work: _Optional[_Iterable[_Union[WorkItem, _Mapping]]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("call", "state", "idempotency_key", "detail", "result")
    CALL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    call: CallRef
    state: EffectState
    idempotency_key: str
    detail: str
    result: bytes
    def __init__(self, call: _Optional[_Union[CallRef, _Mapping]] = ..., state: _Optional[_Union[EffectState, str]] = ..., idempotency_key: _Optional[str] = ..., detail: _Optional[str] = ..., result: _Optional[bytes] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("artifact_id", "sha256", "size_bytes", "line_count", "media_type", "tool_name", "call", "item_index", "is_error", "create_time")
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    artifact_id: str
    sha256: bytes
    size_bytes: int
    line_count: int
    media_type: str
    tool_name: str
    call: CallRef
    item_index: int
    is_error: bool
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, artifact_id: _Optional[str] = ..., sha256: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., line_count: _Optional[int] = ..., media_type: _Optional[str] = ..., tool_name: _Optional[str] = ..., call: _Optional[_Union[CallRef, _Mapping]] = ..., item_index: _Optional[int] = ..., is_error: bool = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ItemRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("checkpoint_id", "base_revision", "revision", "items", "items_sha256", "attempt_id", "summarizer", "model", "format", "boundary", "mode", "superseded_checkpoint_ids", "summary", "anchors_revision", "before_bytes", "after_bytes", "create_time", "live")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_SHA256_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_CHECKPOINT_IDS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_REVISION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AFTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: str
    base_revision: int
    revision: int
    items: _containers.RepeatedCompositeFieldContainer[ItemRange]
    items_sha256: bytes
    attempt_id: str
    summarizer: str
    model: str
    format: Format
    boundary: str
    mode: CompactMode
    superseded_checkpoint_ids: _containers.RepeatedScalarFieldContainer[str]
    summary: bytes
    anchors_revision: int
    before_bytes: int
    after_bytes: int
    create_time: _timestamp_pb2.Timestamp
    live: bool
    def __init__(self, checkpoint_id: _Optional[str] = ..., base_revision: _Optional[int] = ..., revision: _Optional[int] = ..., items: _Optional[_Iterable[_Union[ItemRange, _Mapping]]] = ..., items_sha256: _Optional[bytes] = ..., attempt_id: _Optional[str] = ..., summarizer: _Optional[str] = ..., model: _Optional[str] = ..., format: _Optional[_Union[Format, str]] = ..., boundary: _Optional[str] = ..., mode: _Optional[_Union[CompactMode, str]] = ..., superseded_checkpoint_ids: _Optional[_Iterable[str]] = ..., summary: _Optional[bytes] = ..., anchors_revision: _Optional[int] = ..., before_bytes: _Optional[int] = ..., after_bytes: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., live: bool = ...) -> None: ...
