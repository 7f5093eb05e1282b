from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_MALFORMED_BODY: _ClassVar[ErrorReason]
    ERROR_REASON_FORMAT_AMBIGUOUS: _ClassVar[ErrorReason]
    ERROR_REASON_READ_BACK_REQUIRED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ARTIFACT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CHECKPOINT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ATTEMPT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CALL_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_RANGE_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_PATTERN_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_PAGE_TOKEN_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_REVISION_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_REQUEST_ID_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_NO_BODY: _ClassVar[ErrorReason]
    ERROR_REASON_SUMMARIZER_NOT_CONFIGURED: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_FULL: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_CORRUPTED: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_MANY: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_SERVING: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_MALFORMED_BODY: ErrorReason
ERROR_REASON_FORMAT_AMBIGUOUS: ErrorReason
ERROR_REASON_READ_BACK_REQUIRED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_SESSION_NOT_FOUND: ErrorReason
ERROR_REASON_ARTIFACT_NOT_FOUND: ErrorReason
ERROR_REASON_CHECKPOINT_NOT_FOUND: ErrorReason
ERROR_REASON_ATTEMPT_NOT_FOUND: ErrorReason
ERROR_REASON_CALL_NOT_FOUND: ErrorReason
ERROR_REASON_RANGE_INVALID: ErrorReason
ERROR_REASON_PATTERN_INVALID: ErrorReason
ERROR_REASON_PAGE_TOKEN_INVALID: ErrorReason
ERROR_REASON_REVISION_CONFLICT: ErrorReason
ERROR_REASON_REQUEST_ID_REUSED: ErrorReason
ERROR_REASON_NO_BODY: ErrorReason
ERROR_REASON_SUMMARIZER_NOT_CONFIGURED: ErrorReason
ERROR_REASON_STORE_FULL: ErrorReason
ERROR_REASON_STORE_FAILED: ErrorReason
ERROR_REASON_CORRUPTED: ErrorReason
ERROR_REASON_TOO_MANY: ErrorReason
ERROR_REASON_NOT_SERVING: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
