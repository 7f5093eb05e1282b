from google.protobuf import timestamp_pb2 as _timestamp_pb2
from trimtab.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadBack(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_BACK_UNSPECIFIED: _ClassVar[ReadBack]
    READ_BACK_TOOL: _ClassVar[ReadBack]
    READ_BACK_INJECT: _ClassVar[ReadBack]
    READ_BACK_CALLER: _ClassVar[ReadBack]
    READ_BACK_NONE: _ClassVar[ReadBack]

class FitOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FIT_OUTCOME_UNSPECIFIED: _ClassVar[FitOutcome]
    FIT_OUTCOME_UNCHANGED: _ClassVar[FitOutcome]
    FIT_OUTCOME_FITTED: _ClassVar[FitOutcome]
    FIT_OUTCOME_OVER: _ClassVar[FitOutcome]
    FIT_OUTCOME_CANNOT_FIT: _ClassVar[FitOutcome]

class ReductionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REDUCTION_KIND_UNSPECIFIED: _ClassVar[ReductionKind]
    REDUCTION_KIND_EXTERNALIZE: _ClassVar[ReductionKind]
    REDUCTION_KIND_RESULT: _ClassVar[ReductionKind]
    REDUCTION_KIND_ARGUMENTS: _ClassVar[ReductionKind]
    REDUCTION_KIND_MEDIA: _ClassVar[ReductionKind]
    REDUCTION_KIND_REASONING: _ClassVar[ReductionKind]
    REDUCTION_KIND_RECENT_RESULT: _ClassVar[ReductionKind]
    REDUCTION_KIND_CHECKPOINT: _ClassVar[ReductionKind]

class Summarizer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUMMARIZER_UNSPECIFIED: _ClassVar[Summarizer]
    SUMMARIZER_LEDGER: _ClassVar[Summarizer]
    SUMMARIZER_CALLER: _ClassVar[Summarizer]
    SUMMARIZER_MODEL: _ClassVar[Summarizer]

class CompactOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPACT_OUTCOME_UNSPECIFIED: _ClassVar[CompactOutcome]
    COMPACT_OUTCOME_COMMITTED: _ClassVar[CompactOutcome]
    COMPACT_OUTCOME_PLANNED: _ClassVar[CompactOutcome]
    COMPACT_OUTCOME_KEPT: _ClassVar[CompactOutcome]
    COMPACT_OUTCOME_UNKNOWN: _ClassVar[CompactOutcome]

class KeptReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEPT_REASON_UNSPECIFIED: _ClassVar[KeptReason]
    KEPT_REASON_NO_PRESSURE: _ClassVar[KeptReason]
    KEPT_REASON_NO_CANDIDATE: _ClassVar[KeptReason]
    KEPT_REASON_MID_STAGE: _ClassVar[KeptReason]
    KEPT_REASON_RESERVE_PROTECTED: _ClassVar[KeptReason]
    KEPT_REASON_LOW_BENEFIT: _ClassVar[KeptReason]
    KEPT_REASON_DOES_NOT_FIT: _ClassVar[KeptReason]
    KEPT_REASON_SUMMARY_REJECTED: _ClassVar[KeptReason]
    KEPT_REASON_SUMMARIZER_FAILED: _ClassVar[KeptReason]
    KEPT_REASON_ATTEMPTS_SPENT: _ClassVar[KeptReason]
    KEPT_REASON_DISABLED: _ClassVar[KeptReason]
    KEPT_REASON_FIT_FIRST: _ClassVar[KeptReason]
    KEPT_REASON_DRY_RUN: _ClassVar[KeptReason]
    KEPT_REASON_ROLLED_BACK: _ClassVar[KeptReason]

class AttemptState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_STATE_UNSPECIFIED: _ClassVar[AttemptState]
    ATTEMPT_STATE_RESERVED: _ClassVar[AttemptState]
    ATTEMPT_STATE_DISPATCHED: _ClassVar[AttemptState]
    ATTEMPT_STATE_COMMITTED: _ClassVar[AttemptState]
    ATTEMPT_STATE_FAILED: _ClassVar[AttemptState]
    ATTEMPT_STATE_UNKNOWN: _ClassVar[AttemptState]
READ_BACK_UNSPECIFIED: ReadBack
READ_BACK_TOOL: ReadBack
READ_BACK_INJECT: ReadBack
READ_BACK_CALLER: ReadBack
READ_BACK_NONE: ReadBack
FIT_OUTCOME_UNSPECIFIED: FitOutcome
FIT_OUTCOME_UNCHANGED: FitOutcome
FIT_OUTCOME_FITTED: FitOutcome
FIT_OUTCOME_OVER: FitOutcome
FIT_OUTCOME_CANNOT_FIT: FitOutcome
REDUCTION_KIND_UNSPECIFIED: ReductionKind
REDUCTION_KIND_EXTERNALIZE: ReductionKind
REDUCTION_KIND_RESULT: ReductionKind
REDUCTION_KIND_ARGUMENTS: ReductionKind
REDUCTION_KIND_MEDIA: ReductionKind
REDUCTION_KIND_REASONING: ReductionKind
REDUCTION_KIND_RECENT_RESULT: ReductionKind
REDUCTION_KIND_CHECKPOINT: ReductionKind
SUMMARIZER_UNSPECIFIED: Summarizer
SUMMARIZER_LEDGER: Summarizer
SUMMARIZER_CALLER: Summarizer
SUMMARIZER_MODEL: Summarizer
COMPACT_OUTCOME_UNSPECIFIED: CompactOutcome
COMPACT_OUTCOME_COMMITTED: CompactOutcome
COMPACT_OUTCOME_PLANNED: CompactOutcome
COMPACT_OUTCOME_KEPT: CompactOutcome
COMPACT_OUTCOME_UNKNOWN: CompactOutcome
KEPT_REASON_UNSPECIFIED: KeptReason
KEPT_REASON_NO_PRESSURE: KeptReason
KEPT_REASON_NO_CANDIDATE: KeptReason
KEPT_REASON_MID_STAGE: KeptReason
KEPT_REASON_RESERVE_PROTECTED: KeptReason
KEPT_REASON_LOW_BENEFIT: KeptReason
KEPT_REASON_DOES_NOT_FIT: KeptReason
KEPT_REASON_SUMMARY_REJECTED: KeptReason
KEPT_REASON_SUMMARIZER_FAILED: KeptReason
KEPT_REASON_ATTEMPTS_SPENT: KeptReason
KEPT_REASON_DISABLED: KeptReason
KEPT_REASON_FIT_FIRST: KeptReason
KEPT_REASON_DRY_RUN: KeptReason
KEPT_REASON_ROLLED_BACK: KeptReason
ATTEMPT_STATE_UNSPECIFIED: AttemptState
ATTEMPT_STATE_RESERVED: AttemptState
ATTEMPT_STATE_DISPATCHED: AttemptState
ATTEMPT_STATE_COMMITTED: AttemptState
ATTEMPT_STATE_FAILED: AttemptState
ATTEMPT_STATE_UNKNOWN: AttemptState

class Pin(_message.Message):
    __slots__ = ("call", "tool_name", "released")
    CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    call: _common_pb2.CallRef
    tool_name: str
    released: bool
    def __init__(self, call: _Optional[_Union[_common_pb2.CallRef, _Mapping]] = ..., tool_name: _Optional[str] = ..., released: bool = ...) -> None: ...

class FitRequest(_message.Message):
    __slots__ = ("session", "format", "body", "limits", "anchors", "receipts", "pins", "read_back", "read_back_tool_name", "previous_usage", "previous_usage_json", "dry_run", "list_applied", "expected_revision")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    READ_BACK_FIELD_NUMBER: _ClassVar[int]
    READ_BACK_TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_USAGE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_USAGE_JSON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    LIST_APPLIED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    format: _common_pb2.Format
    body: bytes
    limits: _common_pb2.Limits
    anchors: _common_pb2.Anchors
    receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Receipt]
    pins: _containers.RepeatedCompositeFieldContainer[Pin]
    read_back: ReadBack
    read_back_tool_name: str
    previous_usage: _common_pb2.Usage
    previous_usage_json: bytes
    dry_run: bool
    list_applied: bool
    expected_revision: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., format: _Optional[_Union[_common_pb2.Format, str]] = ..., body: _Optional[bytes] = ..., limits: _Optional[_Union[_common_pb2.Limits, _Mapping]] = ..., anchors: _Optional[_Union[_common_pb2.Anchors, _Mapping]] = ..., receipts: _Optional[_Iterable[_Union[_common_pb2.Receipt, _Mapping]]] = ..., pins: _Optional[_Iterable[_Union[Pin, _Mapping]]] = ..., read_back: _Optional[_Union[ReadBack, str]] = ..., read_back_tool_name: _Optional[str] = ..., previous_usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., previous_usage_json: _Optional[bytes] = ..., dry_run: bool = ..., list_applied: bool = ..., expected_revision: _Optional[int] = ...) -> None: ...

class Reduction(_message.Message):
    __slots__ = ("kind", "item_index", "call", "artifact_id", "checkpoint_id", "saved_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    SAVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: ReductionKind
    item_index: int
    call: _common_pb2.CallRef
    artifact_id: str
    checkpoint_id: str
    saved_bytes: int
    def __init__(self, kind: _Optional[_Union[ReductionKind, str]] = ..., item_index: _Optional[int] = ..., call: _Optional[_Union[_common_pb2.CallRef, _Mapping]] = ..., artifact_id: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., saved_bytes: _Optional[int] = ...) -> None: ...

class ReductionTotal(_message.Message):
    __slots__ = ("kind", "count", "saved_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SAVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: ReductionKind
    count: int
    saved_bytes: int
    def __init__(self, kind: _Optional[_Union[ReductionKind, str]] = ..., count: _Optional[int] = ..., saved_bytes: _Optional[int] = ...) -> None: ...

class HistoryMatch(_message.Message):
    __slots__ = ("matched_item_count", "rewritten_item_count", "new_item_count", "diverged_at", "inapplicable_record_count")
    MATCHED_ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    REWRITTEN_ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEW_ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_AT_FIELD_NUMBER: _ClassVar[int]
    INAPPLICABLE_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    matched_item_count: int
    rewritten_item_count: int
    new_item_count: int
    diverged_at: int
    inapplicable_record_count: int
    def __init__(self, matched_item_count: _Optional[int] = ..., rewritten_item_count: _Optional[int] = ..., new_item_count: _Optional[int] = ..., diverged_at: _Optional[int] = ..., inapplicable_record_count: _Optional[int] = ...) -> None: ...

class Blocker(_message.Message):
    __slots__ = ("item_index", "size_bytes", "reason")
    ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    item_index: int
    size_bytes: int
    reason: str
    def __init__(self, item_index: _Optional[int] = ..., size_bytes: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class CompactionAdvice(_message.Message):
    __slots__ = ("eligible", "unit_count", "range_bytes", "reason")
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    UNIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    RANGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    eligible: bool
    unit_count: int
    range_bytes: int
    reason: KeptReason
    def __init__(self, eligible: bool = ..., unit_count: _Optional[int] = ..., range_bytes: _Optional[int] = ..., reason: _Optional[_Union[KeptReason, str]] = ...) -> None: ...

class FitResponse(_message.Message):
    __slots__ = ("outcome", "body", "before", "after", "reductions", "totals", "artifacts", "advice", "blockers", "notes", "match", "revision", "item_count", "history_digest", "stable_prefix_bytes", "journal_durable", "read_back_tool_name", "effective_limits")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REDUCTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    BLOCKERS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STABLE_PREFIX_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_DURABLE_FIELD_NUMBER: _ClassVar[int]
    READ_BACK_TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    outcome: FitOutcome
    body: bytes
    before: _common_pb2.Pressure
    after: _common_pb2.Pressure
    reductions: _containers.RepeatedCompositeFieldContainer[Reduction]
    totals: _containers.RepeatedCompositeFieldContainer[ReductionTotal]
    artifacts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Artifact]
    advice: CompactionAdvice
    blockers: _containers.RepeatedCompositeFieldContainer[Blocker]
    notes: _containers.RepeatedCompositeFieldContainer[Note]
    match: HistoryMatch
    revision: int
    item_count: int
    history_digest: bytes
    stable_prefix_bytes: int
    journal_durable: bool
    read_back_tool_name: str
    effective_limits: _common_pb2.Limits
    def __init__(self, outcome: _Optional[_Union[FitOutcome, str]] = ..., body: _Optional[bytes] = ..., before: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., after: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., reductions: _Optional[_Iterable[_Union[Reduction, _Mapping]]] = ..., totals: _Optional[_Iterable[_Union[ReductionTotal, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[_common_pb2.Artifact, _Mapping]]] = ..., advice: _Optional[_Union[CompactionAdvice, _Mapping]] = ..., blockers: _Optional[_Iterable[_Union[Blocker, _Mapping]]] = ..., notes: _Optional[_Iterable[_Union[Note, _Mapping]]] = ..., match: _Optional[_Union[HistoryMatch, _Mapping]] = ..., revision: _Optional[int] = ..., item_count: _Optional[int] = ..., history_digest: _Optional[bytes] = ..., stable_prefix_bytes: _Optional[int] = ..., journal_durable: bool = ..., read_back_tool_name: _Optional[str] = ..., effective_limits: _Optional[_Union[_common_pb2.Limits, _Mapping]] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("requests_left", "requests_reserved", "tokens_left", "tokens_reserved")
    REQUESTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_RESERVED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_LEFT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_RESERVED_FIELD_NUMBER: _ClassVar[int]
    requests_left: int
    requests_reserved: int
    tokens_left: int
    tokens_reserved: int
    def __init__(self, requests_left: _Optional[int] = ..., requests_reserved: _Optional[int] = ..., tokens_left: _Optional[int] = ..., tokens_reserved: _Optional[int] = ...) -> None: ...

class CompactRequest(_message.Message):
    __slots__ = ("session", "request_id", "body", "boundary", "force_mid_stage", "ignore_pressure", "mode", "summarizer", "budget", "focus", "limits", "anchors", "receipts", "dry_run", "include_body", "expected_revision")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    FORCE_MID_STAGE_FIELD_NUMBER: _ClassVar[int]
    IGNORE_PRESSURE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZER_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    FOCUS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BODY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    request_id: str
    body: bytes
    boundary: str
    force_mid_stage: bool
    ignore_pressure: bool
    mode: _common_pb2.CompactMode
    summarizer: Summarizer
    budget: Budget
    focus: str
    limits: _common_pb2.Limits
    anchors: _common_pb2.Anchors
    receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Receipt]
    dry_run: bool
    include_body: bool
    expected_revision: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., request_id: _Optional[str] = ..., body: _Optional[bytes] = ..., boundary: _Optional[str] = ..., force_mid_stage: bool = ..., ignore_pressure: bool = ..., mode: _Optional[_Union[_common_pb2.CompactMode, str]] = ..., summarizer: _Optional[_Union[Summarizer, str]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., focus: _Optional[str] = ..., limits: _Optional[_Union[_common_pb2.Limits, _Mapping]] = ..., anchors: _Optional[_Union[_common_pb2.Anchors, _Mapping]] = ..., receipts: _Optional[_Iterable[_Union[_common_pb2.Receipt, _Mapping]]] = ..., dry_run: bool = ..., include_body: bool = ..., expected_revision: _Optional[int] = ...) -> None: ...

class FinishCompactRequest(_message.Message):
    __slots__ = ("session", "attempt_id", "response", "text", "failed", "unknown", "include_body")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BODY_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    attempt_id: str
    response: bytes
    text: bytes
    failed: str
    unknown: str
    include_body: bool
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., attempt_id: _Optional[str] = ..., response: _Optional[bytes] = ..., text: _Optional[bytes] = ..., failed: _Optional[str] = ..., unknown: _Optional[str] = ..., include_body: bool = ...) -> None: ...

class FinishCompactResponse(_message.Message):
    __slots__ = ("compact",)
    COMPACT_FIELD_NUMBER: _ClassVar[int]
    compact: CompactResponse
    def __init__(self, compact: _Optional[_Union[CompactResponse, _Mapping]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt_id", "state", "items", "summarizer", "detail", "usage", "create_time")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZER_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    state: AttemptState
    items: _containers.RepeatedCompositeFieldContainer[_common_pb2.ItemRange]
    summarizer: str
    detail: str
    usage: _common_pb2.Usage
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, attempt_id: _Optional[str] = ..., state: _Optional[_Union[AttemptState, str]] = ..., items: _Optional[_Iterable[_Union[_common_pb2.ItemRange, _Mapping]]] = ..., summarizer: _Optional[str] = ..., detail: _Optional[str] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("outcome", "kept_reason", "detail", "summary_request", "checkpoint", "attempt", "before", "after", "body", "revision", "item_count", "notes")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    KEPT_REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    outcome: CompactOutcome
    kept_reason: KeptReason
    detail: str
    summary_request: bytes
    checkpoint: _common_pb2.Checkpoint
    attempt: Attempt
    before: _common_pb2.Pressure
    after: _common_pb2.Pressure
    body: bytes
    revision: int
    item_count: int
    notes: _containers.RepeatedCompositeFieldContainer[Note]
    def __init__(self, outcome: _Optional[_Union[CompactOutcome, str]] = ..., kept_reason: _Optional[_Union[KeptReason, str]] = ..., detail: _Optional[str] = ..., summary_request: _Optional[bytes] = ..., checkpoint: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., attempt: _Optional[_Union[Attempt, _Mapping]] = ..., before: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., after: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., body: _Optional[bytes] = ..., revision: _Optional[int] = ..., item_count: _Optional[int] = ..., notes: _Optional[_Iterable[_Union[Note, _Mapping]]] = ...) -> None: ...

class RecoverRequest(_message.Message):
    __slots__ = ("session", "include_body", "close_interrupted", "request_id", "expected_revision")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BODY_FIELD_NUMBER: _ClassVar[int]
    CLOSE_INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    include_body: bool
    close_interrupted: bool
    request_id: str
    expected_revision: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., include_body: bool = ..., close_interrupted: bool = ..., request_id: _Optional[str] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class OpenCall(_message.Message):
    __slots__ = ("call", "tool_name", "content", "receipt", "closed_by")
    CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_FIELD_NUMBER: _ClassVar[int]
    call: _common_pb2.CallRef
    tool_name: str
    content: bytes
    receipt: _common_pb2.Receipt
    closed_by: bytes
    def __init__(self, call: _Optional[_Union[_common_pb2.CallRef, _Mapping]] = ..., tool_name: _Optional[str] = ..., content: _Optional[bytes] = ..., receipt: _Optional[_Union[_common_pb2.Receipt, _Mapping]] = ..., closed_by: _Optional[bytes] = ...) -> None: ...

class RecoverResponse(_message.Message):
    __slots__ = ("format", "revision", "item_count", "history_digest", "body", "pressure", "checkpoints", "attempts", "open_calls", "anchors", "artifact_count", "notes", "receipts", "pins")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OPEN_CALLS_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    format: _common_pb2.Format
    revision: int
    item_count: int
    history_digest: bytes
    body: bytes
    pressure: _common_pb2.Pressure
    checkpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.Checkpoint]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    open_calls: _containers.RepeatedCompositeFieldContainer[OpenCall]
    anchors: _common_pb2.Anchors
    artifact_count: int
    notes: _containers.RepeatedCompositeFieldContainer[Note]
    receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Receipt]
    pins: _containers.RepeatedCompositeFieldContainer[Pin]
    def __init__(self, format: _Optional[_Union[_common_pb2.Format, str]] = ..., revision: _Optional[int] = ..., item_count: _Optional[int] = ..., history_digest: _Optional[bytes] = ..., body: _Optional[bytes] = ..., pressure: _Optional[_Union[_common_pb2.Pressure, _Mapping]] = ..., checkpoints: _Optional[_Iterable[_Union[_common_pb2.Checkpoint, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., open_calls: _Optional[_Iterable[_Union[OpenCall, _Mapping]]] = ..., anchors: _Optional[_Union[_common_pb2.Anchors, _Mapping]] = ..., artifact_count: _Optional[int] = ..., notes: _Optional[_Iterable[_Union[Note, _Mapping]]] = ..., receipts: _Optional[_Iterable[_Union[_common_pb2.Receipt, _Mapping]]] = ..., pins: _Optional[_Iterable[_Union[Pin, _Mapping]]] = ...) -> None: ...

class RecordRequest(_message.Message):
    __slots__ = ("session", "request_id", "format", "items", "first_item_index", "receipts", "anchors", "expected_revision")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FIRST_ITEM_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    request_id: str
    format: _common_pb2.Format
    items: bytes
    first_item_index: int
    receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Receipt]
    anchors: _common_pb2.Anchors
    expected_revision: int
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., request_id: _Optional[str] = ..., format: _Optional[_Union[_common_pb2.Format, str]] = ..., items: _Optional[bytes] = ..., first_item_index: _Optional[int] = ..., receipts: _Optional[_Iterable[_Union[_common_pb2.Receipt, _Mapping]]] = ..., anchors: _Optional[_Union[_common_pb2.Anchors, _Mapping]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class RecordResponse(_message.Message):
    __slots__ = ("revision", "item_count", "history_digest")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    revision: int
    item_count: int
    history_digest: bytes
    def __init__(self, revision: _Optional[int] = ..., item_count: _Optional[int] = ..., history_digest: _Optional[bytes] = ...) -> None: ...

class GetReadBackToolRequest(_message.Message):
    __slots__ = ("format",)
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    format: _common_pb2.Format
    def __init__(self, format: _Optional[_Union[_common_pb2.Format, str]] = ...) -> None: ...

class GetReadBackToolResponse(_message.Message):
    __slots__ = ("name", "tool")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool: bytes
    def __init__(self, name: _Optional[str] = ..., tool: _Optional[bytes] = ...) -> None: ...

class ResolveCallRequest(_message.Message):
    __slots__ = ("session", "format", "call")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    session: _common_pb2.SessionRef
    format: _common_pb2.Format
    call: bytes
    def __init__(self, session: _Optional[_Union[_common_pb2.SessionRef, _Mapping]] = ..., format: _Optional[_Union[_common_pb2.Format, str]] = ..., call: _Optional[bytes] = ...) -> None: ...

class ResolveCallResponse(_message.Message):
    __slots__ = ("result", "not_ours")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    NOT_OURS_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    not_ours: bool
    def __init__(self, result: _Optional[bytes] = ..., not_ours: bool = ...) -> None: ...
