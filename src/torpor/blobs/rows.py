"""Elements of `Rows` fields, packed where they lie: most of what a long run leaves in a store is its conversation.

A packed element begins with `PACKED_MARK`, as no value does, and is one zstd frame behind it. Messages of agents are short and
say the same words each time (`"part_kind":"tool-return"`), which packs badly message by message; so the frames are made with a
dictionary, `_WORDS`. **It is part of the format**: what was packed with it is read with it. Who wants other words takes
another mark, and reads both.

**Each frame carries a checksum.** Without it one flipped bit is a copy from another place of the dictionary: seven in ten
unpack without a complaint, nearly all of them into another message that can be read, and a model would be told it. Frames that
were written before have none, and are read as well.
"""

from __future__ import annotations

import threading

import zstandard

from torpor.core.journal import BLOB_BYTES, BLOB_MARK, PACKED_MARK
from torpor.errors import StoreCorrupt

LEAST_BYTES = 160
"""Shorter ones are not worth the while."""
_LEVEL = 5
_WORDS = (
    b'"vendor_id":null,"code":null,"description":"","status":"ok","title":"","url":"https://www.","name":"","type":"text",'
    b'"id":"","error":"","message":"","path":"/","text":"","query":"","result":{"value":"","items":[{"number":0,"content":"'
    b'{"timestamp":"2026-01-01T00:00:00.000000Z","instructions":"You are a helpful assistant. ","kind":"request","parts":['
    b'{"content":"","timestamp":"2026-01-01T00:00:00.000000Z","part_kind":"user-prompt"},{"content":"","tool_name":"",'
    b'"tool_call_id":"call_","timestamp":"2026-01-01T00:00:00.000000Z","part_kind":"retry-prompt"},{"usage":{'
    b'"input_tokens":1000,"cache_write_tokens":0,"cache_read_tokens":1000,"output_tokens":100,"details":{'
    b'"reasoning_tokens":0}},"model_name":"gpt-5-mini","model_id":"openai:gpt-5","provider_name":"openai",'
    b'"provider_url":"https://api.openai.com/v1/","provider_details":{"finish_reason":"tool_calls"},'
    b'"provider_response_id":"chatcmpl-","finish_reason":"stop","parts":[{"content":"","id":"","signature":"",'
    b'"provider_name":"anthropic","provider_url":"https://api.anthropic.com","part_kind":"thinking"},{"content":"",'
    b'"part_kind":"text"},{"usage":{"input_tokens":100,"output_tokens":20},"model_name":"claude-sonnet-4-5",'
    b'"model_id":"anthropic:claude-sonnet-4-5","timestamp":"2026-01-01T00:00:00.000000Z","kind":"response",'
    b'"provider_details":{"finish_reason":"tool_use"},"finish_reason":"tool_call","parts":[{"tool_name":"","args":{"":""},'
    b'"tool_call_id":"toolu_01","part_kind":"tool-call"}],"pydantic_ai":"2.68.0"}'
    b'{"timestamp":"2026-01-01T00:00:00.000000Z","kind":"request","parts":[{"tool_name":"","content":"","tool_call_id":"pyd_ai_",'
    b'"timestamp":"2026-01-01T00:00:00.000000Z","part_kind":"tool-return"}],"pydantic_ai":"2.68.0"}'
)


class _Tools(threading.local):
    """What packs and unpacks in one thread: neither may be used by two at once, and making one costs more than using it."""

    def __init__(self) -> None:
        words = zstandard.ZstdCompressionDict(_WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        words.precompute_compress(level=_LEVEL)
        self.compress = zstandard.ZstdCompressor(level=_LEVEL, dict_data=words, write_checksum=True).compress
        self.decompress = zstandard.ZstdDecompressor(dict_data=words).decompress


_TOOLS = _Tools()


def pack(body: bytes) -> bytes:
    """Return what is stored for an element: packed if that makes it shorter. The name of a blob stays what it is."""
    if len(body) < LEAST_BYTES or body[:1] == BLOB_MARK:
        return body
    packed = PACKED_MARK + _TOOLS.compress(body)
    return packed if len(packed) < len(body) else body


def unpack(stored: bytes, named: str = "an element") -> bytes:
    """Return the element that `pack` was given. Raises StoreCorrupt, which says what it was `named`."""
    if stored[:1] != PACKED_MARK:
        return stored
    frame = stored[1:]
    try:
        if zstandard.frame_content_size(frame) > BLOB_BYTES:
            raise zstandard.ZstdError("it claims to be larger than any element that is packed")
        return _TOOLS.decompress(frame)
    except (zstandard.ZstdError, MemoryError) as error:
        message = f"{named} ({len(stored)} packed bytes) is damaged: {error}"
        raise StoreCorrupt(message, hint="torpor doctor") from error
