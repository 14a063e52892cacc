"""Frames that no honest peer would send: seeded, endless, and fast to make.

``frames`` yields valid messages of every type and what is left of them after byte flips, cuts,
splices, swapped types, absurd values and deep nests. For a long run:

``python -m tests.fuzz_frames --count 1000000 --seed 7``
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from time import perf_counter
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import inspect
from tests.fuzz_growth import Growth, Held, held_here

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    FROM_CLIENT,
    FROM_NODE,
    TO_CLIENT,
    TO_NODE,
    ClientToScheduler,
    Decoder,
    Message,
    NodeToScheduler,
    SchedulerToClient,
    SchedulerToNode,
    SubProtocol,
    encode,
)

MESSAGES: tuple[type[Message], ...] = tuple(
    dict.fromkeys(
        struct
        for union in (NodeToScheduler, SchedulerToNode, ClientToScheduler, SchedulerToClient)
        for struct in get_args(union)
    )
)
"""Every message there is, each once."""

_SAMPLES_EACH = 6
_type_info = cache(inspect.type_info)

_JSON_ABSURDITIES = (
    *(b"1e999", b"-1", b"9" * 400, b"9" * 5000, b"18446744073709551616", b"0.5", b"-0", b"1E+2"),
    *(b"NaN", b"Infinity", b"null", b"true", b'""', b'"\\ud800"', b'"\\u0000"', b'"@@@"', b"01"),
    *(b"[]", b"{}", b'{"a":{"a":{"a":null}}}', b'"' + b"x" * 2000 + b'"'),
    *(b"[" * depth + b"]" * depth for depth in (5, 50, 3000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (5, 50, 3000)),
)
_MSGPACK_ABSURDITIES = (
    *(b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\0" * 7, b"\xff", b"\xc0", b"\xc3", b"\xc1", b"\xa0"),
    *(b"\xcb\x7f\xf8" + b"\0" * 6, b"\xcb\x7f\xf0" + b"\0" * 6, b"\xca\x3f\0\0\0", b"\xa1\xff"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xdc\xff\xff"),
    *(b"\xc6\xff\xff\xff\xff", b"\xc7\x01\x05a", b"\xd6\xff\xff\xff\xff\xff", b"\x81\x90\x01"),
    *(b"\x91" * depth + b"\xc0" for depth in (5, 50, 3000)),
    *(b"\x81\xa1a" * depth + b"\xc0" for depth in (5, 50, 3000)),
)


class Sample(NamedTuple):
    """A valid frame, and the type it has."""

    type: bytes
    data: bytes


class Corpus(NamedTuple):
    """What the mutations of one sub-protocol work with."""

    sub: SubProtocol
    samples: list[Sample]
    types: list[bytes]
    fields: list[bytes]


def frames(seed: int, count: int) -> Iterator[tuple[SubProtocol, bytes | str]]:
    """Yield ``count`` frames; the same seed yields the same ones.

    JSON that is still valid Unicode comes as the text of a text frame, all else as bytes.
    """
    random = Random(seed)
    corpora = [_corpus(sub, random) for sub in SubProtocol]
    for _ in range(count):
        corpus = corpora[random.random() < 0.5]
        data = random.choice(_MUTATIONS)(random.choice(corpus.samples), corpus, random)
        if corpus.sub.binary:
            yield corpus.sub, data
        else:
            try:
                yield corpus.sub, data.decode()
            except UnicodeDecodeError:
                yield corpus.sub, data


# --- mutations ----------------------------------------------------------------------------------


def _intact(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    return sample.data


def _noise(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    return random.randbytes(int(random.random() * 64))


def _flipped(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    data = bytearray(sample.data)
    for _ in range(1 + int(random.random() * 4)):
        data[int(random.random() * len(data))] = int(random.random() * 256)
    return bytes(data)


def _truncated(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    return sample.data[: int(random.random() * len(sample.data))]


def _spliced(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    other = random.choice(corpus.samples).data
    head = sample.data[: int(random.random() * len(sample.data))]
    return head + other[int(random.random() * len(other)) :]


def _other_type(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    return sample.data.replace(sample.type, random.choice(corpus.types), 1)


def _absurd(sample: Sample, corpus: Corpus, random: Random) -> bytes:
    """Give a field of the message, or one it should not have, an absurd value."""
    data, field = sample.data, random.choice(corpus.fields)
    if not corpus.sub.binary:
        value = random.choice(_JSON_ABSURDITIES)
        at = data.find(b'":', int(random.random() * len(data)))
        if at < 0 or random.random() < 0.5:
            return data[:-1] + b"," + field + b":" + value + b"}"
        # The value that was there becomes that of a field nobody knows.
        return data[: at + 2] + value + b',"unknown":' + data[at + 2 :]
    value = random.choice(_MSGPACK_ABSURDITIES)
    if data[0] in range(0x80, 0x8F):  # a map that may have one entry more
        return bytes((data[0] + 1,)) + data[1:] + field + value
    at = int(random.random() * len(data))
    return data[:at] + value + data[at + 1 :]


_MUTATIONS: tuple[Callable[[Sample, Corpus, Random], bytes], ...] = (
    _intact,
    _noise,
    _flipped,
    _flipped,
    _truncated,
    _spliced,
    _other_type,
    _absurd,
    _absurd,
)


# --- valid frames -------------------------------------------------------------------------------


def _corpus(sub: SubProtocol, random: Random) -> Corpus:
    def written(text: str) -> bytes:
        return msgspec.msgpack.encode(text) if sub.binary else msgspec.json.encode(text)

    samples = []
    for struct in MESSAGES:
        for _ in range(_SAMPLES_EACH):
            frame = encode(valid_message(struct, random), sub)
            data = frame.encode() if isinstance(frame, str) else frame
            samples.append(Sample(written(str(struct.__struct_config__.tag)), data))
    return Corpus(
        sub,
        samples,
        types=sorted({sample.type for sample in samples} | {written("no_such_type")}),
        fields=sorted({written(name) for s in MESSAGES for name in s.__struct_encode_fields__}),
    )


def valid_message(struct: type[Message], random: Random) -> Message:
    """A message that keeps the rules of its fields; optional ones are there half of the time."""
    message: Message = _valid(_type_info(struct), random)
    return message


def _valid(type_info: inspect.Type, random: Random) -> Any:
    match type_info:
        case inspect.Metadata(type=inner):
            return _valid(inner, random)
        case inspect.StructType(cls=cls, fields=fields):
            return cls(
                **{
                    field.name: _valid(field.type, random)
                    for field in fields
                    if field.required or random.random() < 0.5
                }
            )
        case inspect.UnionType(types=types):
            return _valid(random.choice(types), random)
        case inspect.VarTupleType(item_type=item):
            return tuple(_valid(item, random) for _ in range(random.randrange(3)))
        case inspect.ListType(item_type=item):
            return [_valid(item, random) for _ in range(random.randrange(3))]
        case inspect.DictType(value_type=value):
            return {f"k{n}": _valid(value, random) for n in range(random.randrange(3))}
        case inspect.EnumType(cls=cls):
            return random.choice(list(cls))
        case inspect.IntType(ge=low, le=high):
            return random.randint(low or 0, min(high or 1000, (low or 0) + 1000))
        case inspect.FloatType():
            return round(random.random() * 100, 3)
        case inspect.BoolType():
            return random.random() < 0.5
        case inspect.BytesType():
            return random.randbytes(random.randrange(48))
        case inspect.StrType():  # fits every pattern: a language tag is also a name
            return random.choice(("en", "zh-hant", "es", "pt-br"))
        case inspect.NoneType() | inspect.AnyType():
            return None
    raise TypeError(f"no valid value is known for {type_info}")


# --- the long run -------------------------------------------------------------------------------

MOST_GROWTH = Held(memory_bytes=10_000_000, descriptors=0)
"""Nothing is kept of a frame; the bytes are for what the allocator holds back."""

_FROM_OUTSIDE: tuple[Decoder[Any], ...] = (FROM_NODE, FROM_CLIENT)
_FROM_SCHEDULER: tuple[Decoder[Any], ...] = (TO_NODE, TO_CLIENT)


def outcome(decoder: Decoder[Any], frame: bytes | str, sub: SubProtocol) -> str:
    """What became of a frame: the kind of refusal, or the type of the message in it.

    What comes from outside may have to leave in either sub-protocol, so an accepted message
    must survive both. Raises whatever is not a typed refusal.
    """
    try:
        message = decoder.decode(frame, sub)
    except InvalidMessage as refusal:
        return str(refusal.details["problem"])
    if decoder in _FROM_OUTSIDE:
        for each in SubProtocol:
            if decoder.decode(encode(message, each), each) != message:
                raise AssertionError(f"changed by {each.value}: {message!r}")
    return "accepted"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_frames", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="frames to try")
    parser.add_argument("--seed", type=int, help="the same seed makes the same frames")
    options = parser.parse_args()
    seed = Random().getrandbits(32) if options.seed is None else options.seed
    sys.stdout.write(f"The seed is {seed}.\n")
    outcomes: Counter[str] = Counter()
    bad = 0
    started = perf_counter()
    growth = Growth(held_here, options.count, MOST_GROWTH)
    for number, (sub, frame) in enumerate(frames(seed, options.count)):
        for decoder in _FROM_OUTSIDE + _FROM_SCHEDULER:
            try:
                outcomes[outcome(decoder, frame, sub)] += 1
            except Exception as error:
                bad += 1
                outcomes[type(error).__name__] += 1
                sys.stderr.write(f"frame {number}, {sub.value}: {error!r}\n  {frame!r}\n")
        growth.done(number + 1)
    seconds = perf_counter() - started
    for name, times in outcomes.most_common():
        sys.stdout.write(f"{times:>12} {name}\n")
    sys.stdout.write(f"{options.count} frames, seed {seed}, {seconds:.1f} s; {growth.check()}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
