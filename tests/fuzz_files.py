"""Files that no honest program would write: tables, archives and recordings, whole and broken.

Every file is read as the server would read it. A reader may refuse it with the one error that its
callers know, and with nothing else; it must not crash, hang, or keep files open. A share of them
is sent to a real server, which must answer each with less than 500.

``python -m tests.fuzz_files --count 5000 --seed 7``
"""

from __future__ import annotations

import argparse
import io
import struct
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from time import perf_counter

import httpx
from tests.fuzz_growth import Growth, Held, held_by_family, held_here
from tests.integration.serve.server_process import ServerProcess
from tests.unit.audio.sounds import opus, tone, wav

from dragoman.audio import read_opus, read_wav, seconds_of
from dragoman.errors import AudioUnreadable, DatasetInvalid
from dragoman.lab.audio import AudioIntake, opened_archive
from dragoman.lab.datasets import DatasetReader, Format, RowSchema
from dragoman.live.sessions.opus import OpusMeter

SECONDS_A_FILE = 20.0
"""The longest that one broken file may keep a reader busy."""

ROUNDS = 10

MOST_GROWTH = Held(memory_bytes=40_000_000, descriptors=0)
"""How much more the readers may hold at the end: what the allocator holds back, and no file."""

MOST_GROWTH_OF_SERVER = Held(memory_bytes=80_000_000, descriptors=20)
"""How much more a server and its lab may hold: caches, and connections to the database."""

SLOW_KINDS_SHARE = 0.06
"""Of files that a process of their own reads, or a server."""

_ABSURD_NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
_ABSURD_TEXTS = (
    *(b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\xaf", b"\r", b"\n" * 50),
    *(b'"', b'""', b'"' * 999, b"," * 5000, b"{" * 3000, b"[" * 3000, b"\\ud800", b"1e999"),
    *(b"NaN", b"-Infinity", b'{"turns": []}', b'{"turns": 1}', b"=cmd()", b"9" * 5000, b"\x1a"),
)

Check = Callable[[bytes], None]


# --- whole files ----------------------------------------------------------------------------------


@cache
def whole(kind: str) -> Sequence[bytes]:
    """Files of a kind as they should be."""
    return _WHOLE[kind]()


def _csv() -> list[bytes]:
    rows = b"said,wanted\r\n" + b"".join(b'"hello, %d",hola\r\n' % n for n in range(30))
    return [rows, b"\xef\xbb\xbfsaid\nhello\n", b"a;b\n1;2\n", "说,想\n你好,hola\n".encode()]


def _jsonl() -> list[bytes]:
    rows = b"".join(b'{"said": "hello %d", "n": %d}\n' % (n, n) for n in range(30))
    talk = b'{"turns": [{"said": "a"}, {"said": "b", "deep": {"x": [1, null, true, 0.5]}}]}\n'
    return [rows, talk * 5]


def _parquet() -> list[bytes]:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
    import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]

    found = []
    for compression in ("none", "snappy", "zstd"):
        table = pa.table(
            {
                "said": [f"hello {n}" for n in range(50)],
                "n": list(range(50)),
                "list": [[n, n + 1] for n in range(50)],
            }
        )
        file = io.BytesIO()
        parquet.write_table(table, file, compression=compression)
        found.append(file.getvalue())
    return found


def _zip() -> list[bytes]:
    found = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("rows.jsonl", b'{"sound": "a.wav"}\n{"sound": "b.opus"}\n')
            archive.writestr("a.wav", wav(tone(440, 0.05)))
            archive.writestr("b.opus", opus(tone(440, 0.05)))
        found.append(file.getvalue())
    return found


def _wav() -> list[bytes]:
    sound = tone(440, 0.05)
    return [wav(sound), wav(sound, channels=2, width=3), wav(sound, width=1)]


def _opus() -> list[bytes]:
    return [opus(tone(440, 0.2)), opus(tone(220, 0.05))]


_WHOLE: dict[str, Callable[[], list[bytes]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "zip": _zip,
    "wav": _wav,
    "opus": _opus,
}


# --- broken files ---------------------------------------------------------------------------------


def files(random: Random, kind: str) -> Iterator[bytes]:
    """Files of a kind, each broken in one or several ways; endless."""
    while True:
        content = bytearray(random.choice(whole(kind)))
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            random.choice(_WAYS)(content, random)
        yield bytes(content)


def _flip(content: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 4, 64))):
        if content:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _cut(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content) + 1) :]


def _behead(content: bytearray, random: Random) -> None:
    del content[: random.randrange(min(len(content), 64) + 1)]


def _remove(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) + 1)
    del content[at : at + random.randrange(64)]


def _repeat(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) + 1)
    piece = content[at : at + random.randrange(256)]
    content[at:at] = piece * random.randrange(1, 20)


def _insert(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) + 1)
    content[at:at] = random.choice(_ABSURD_TEXTS)


def _number(content: bytearray, random: Random) -> None:
    """An absurd length, count or rate where one may be."""
    size = random.choice((1, 2, 4))
    at = random.randrange(max(1, min(len(content), random.choice((64, 1 << 20)))))
    value = random.choice(_ABSURD_NUMBERS) & ((1 << 8 * size) - 1)
    content[at : at + size] = value.to_bytes(size, random.choice(("little", "big")))


def _from_the_end(content: bytearray, random: Random) -> None:
    """Where Parquet and .zip keep what tells of the rest."""
    at = max(0, len(content) - random.randrange(1, 64))
    content[at : at + 4] = struct.pack("<I", random.choice(_ABSURD_NUMBERS))


def _noise(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) + 1)
    content[at : at + 32] = random.randbytes(32)


_WAYS = (_flip, _cut, _behead, _remove, _repeat, _insert, _number, _from_the_end, _noise)


# --- readers --------------------------------------------------------------------------------------


def _read_table(file_format: Format) -> Check:
    def check(content: bytes) -> None:
        try:
            for _ in DatasetReader(io.BytesIO(content), file_format, max_items=10_000):
                pass
        except DatasetInvalid:
            pass

    return check


def _read_archive(content: bytes) -> None:
    schema = RowSchema({"properties": {"sound": {"type": "string", "format": "audio"}}})
    try:
        with opened_archive(io.BytesIO(content)) as archive:
            reader = DatasetReader(
                archive.table, Format.JSONL, schema=schema, audio=AudioIntake(archive.files)
            )
            for _ in reader:
                pass
    except DatasetInvalid:
        pass


def _read_sound(audio_format: str, read: Callable[[bytes], object]) -> Check:
    def check(content: bytes) -> None:
        with suppress(AudioUnreadable):
            read(content)
        assert 0 <= seconds_of(content, audio_format, 16_000) < 1e9
        assert OpusMeter().duration_ms(content) >= 0

    return check


READERS: dict[str, Check] = {
    "csv": _read_table(Format.CSV),
    "jsonl": _read_table(Format.JSONL),
    "parquet": _read_table(Format.PARQUET),
    "zip": _read_archive,
    "wav": _read_sound("wav", read_wav),
    "opus": _read_sound("opus", read_opus),
}
SLOW_KINDS = frozenset({"parquet"})
"""A process of its own reads each."""


def counts(total: int) -> dict[str, int]:
    """How many files of each kind make up a run."""
    slow = max(1, round(total * SLOW_KINDS_SHARE))
    fast = [kind for kind in READERS if kind not in SLOW_KINDS]
    each = max(1, -(-(total - slow * len(SLOW_KINDS)) // len(fast)))
    return {kind: slow if kind in SLOW_KINDS else each for kind in READERS}


def read_broken_files(total: int, seed: int) -> Counter[str]:
    """Read so many broken files; raises what a reader must not raise, with the file's number."""
    done: Counter[str] = Counter()
    wanted = counts(total)
    made = {kind: files(Random(f"{seed} {kind}"), kind) for kind in wanted}
    growth = Growth(held_here, ROUNDS, MOST_GROWTH)
    for round_ in range(ROUNDS):
        # Each round has some of every kind: the first loads what every reader needs.
        for kind, count in wanted.items():
            for number in range(-(-count * round_ // ROUNDS), -(-count * (round_ + 1) // ROUNDS)):
                _read_one(kind, number, next(made[kind]), seed)
                done[kind] += 1
        growth.done(round_ + 1)
    growth.check()
    return done


def _read_one(kind: str, number: int, content: bytes, seed: int) -> None:
    began = perf_counter()
    try:
        READERS[kind](content)
    except Exception as error:
        kept = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{number}.{kind}"
        kept.write_bytes(content)
        raise AssertionError(f"{kind} file {number} of seed {seed}: {kept}") from error
    took = perf_counter() - began
    assert took < SECONDS_A_FILE, f"{kind} file {number} of seed {seed} took {took:.1f} s"


def send_broken_files(server: ServerProcess, total: int, seed: int) -> Counter[int]:
    """Import so many broken files; the statuses of the answers, all of them below 500."""
    statuses: Counter[int] = Counter()
    kinds = ("csv", "jsonl", "parquet", "zip")
    made = {kind: files(Random(f"{seed} sent {kind}"), kind) for kind in kinds}
    growth = Growth(lambda: held_by_family(server.process.pid), total, MOST_GROWTH_OF_SERVER)
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=120) as client:
        for number in range(total):
            kind = kinds[number % len(kinds)]
            answer = client.post(
                "/datasets",
                files={"file": (f"rows.{kind}", next(made[kind]))},
                data={"name": f"broken {number}"},
            )
            statuses[answer.status_code] += 1
            told = f"{kind} file {number} of seed {seed}: {answer.status_code} {answer.text[:500]}"
            assert answer.status_code < 500, told
            growth.done(number + 1)
        growth.check()
    return statuses


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = Random().getrandbits(32) if arguments.seed is None else arguments.seed
    say(f"The seed is {seed}.")
    began = perf_counter()
    done = read_broken_files(arguments.count, seed)
    say(f"{sum(done.values())} files read: {dict(done)}")
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder) / "data", lab=True) as server,
    ):
        statuses = send_broken_files(server, max(1, arguments.count // 20), seed)
        assert httpx.get(f"{server.url}/readyz", timeout=60).status_code == 200
    say(f"{sum(statuses.values())} files sent: {dict(statuses)}; {perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
