"""What a single field may hold: ids, counts, amounts, times, and free-form values.

A limit stands here when it is cheap and holds for every message; what depends on several fields
is in ``checks``. What the scheduler itself sends is not checked again by those who read it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from dragoman.ids import AttemptId, JobId, NodeId, RequestId, SessionId, TenantId

MAX_ID_LENGTH = 128
MAX_TOKEN_LENGTH = 1024
MAX_SLOTS = 10_000
"""More jobs at once than any one node runs; a larger number is a mistake."""
LONGEST_LIST = 2 * MAX_SLOTS
"""No list in a message is longer: attempts being cancelled run on beside those that follow."""

LARGEST_JSON_INTEGER = 2**53 - 1
"""The largest number that every JSON reader, browsers included, reads exactly."""

# \A and \Z, because $ would let a trailing newline through.
_NAME_PATTERN = r"\A[^\s\x00-\x1f\x7f{}]+\Z"
_REQUEST_PATTERN = r"\A[^\x00-\x1f\x7f]+\Z"

# --- names ------------------------------------------------------------------------------------

# Job and attempt ids are only ever looked up, so that their length is all that needs a check.
JobIdField = Annotated[JobId, Meta(min_length=1, max_length=MAX_ID_LENGTH)]
AttemptIdField = Annotated[AttemptId, Meta(min_length=1, max_length=MAX_ID_LENGTH)]

_NAME = Meta(min_length=1, max_length=MAX_ID_LENGTH, pattern=_NAME_PATTERN)
NodeIdField = Annotated[NodeId, _NAME]
SessionIdField = Annotated[SessionId, _NAME]
TenantIdField = Annotated[TenantId, _NAME]
Name = Annotated[str, _NAME]
RequestIdField = Annotated[
    RequestId, Meta(min_length=1, max_length=MAX_ID_LENGTH, pattern=_REQUEST_PATTERN)
]

Token = Annotated[str, Meta(min_length=1, max_length=MAX_TOKEN_LENGTH)]
Label = Annotated[str, Meta(max_length=256)]
"""A version, a platform, a model: short text that is shown and compared, never parsed."""

# --- numbers ----------------------------------------------------------------------------------

Count = Annotated[int, Meta(ge=0, le=LARGEST_JSON_INTEGER)]
Slots = Annotated[int, Meta(ge=1, le=MAX_SLOTS)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Any finite number: MessagePack can carry NaN and infinity, JSON cannot."""

SpeechMs = Annotated[int, Meta(ge=0, le=10_000)]
SampleRate = Annotated[int, Meta(ge=8_000, le=192_000)]

# --- free-form values -------------------------------------------------------------------------

# Whatever a node adds to a result may have to leave in the other sub-protocol, so it holds only
# what both can carry (text keys, 64-bit integers, finite numbers). The depth is spelled out
# because it is limited: a frame cannot nest its way through the scheduler.
_Scalar = None | bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Number | str
_Depth1 = _Scalar | Sequence[_Scalar] | Mapping[str, _Scalar]
_Depth2 = _Scalar | Sequence[_Depth1] | Mapping[str, _Depth1]
_Depth3 = _Scalar | Sequence[_Depth2] | Mapping[str, _Depth2]
_Depth4 = _Scalar | Sequence[_Depth3] | Mapping[str, _Depth3]
_Depth5 = _Scalar | Sequence[_Depth4] | Mapping[str, _Depth4]
_Depth6 = _Scalar | Sequence[_Depth5] | Mapping[str, _Depth5]
_Depth7 = _Scalar | Sequence[_Depth6] | Mapping[str, _Depth6]

FreeForm = Mapping[str, _Depth7]
"""A JSON object of at most eight levels, passed on as it is."""

PATTERN_MEANINGS = {
    _NAME_PATTERN: "a name without spaces, control characters or braces",
    _REQUEST_PATTERN: "text without control characters",
}
"""What each pattern asks for, in words for the person whose message did not fit."""
