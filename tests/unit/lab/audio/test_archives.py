"""Archives and the files they hold: whatever is in them, they are read or refused."""

from __future__ import annotations

import io
import struct
import zipfile
from collections import Counter
from random import Random

import pytest

from dragoman.errors import DatasetInvalid
from dragoman.lab.audio import AudioIntake, BadAudio, file_of, opened_archive
from dragoman.lab.audio import archive as archives
from dragoman.lab.audio.facts import media_type_of, wav_duration_ms

SEED = 20_261_115


def whole() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("items.jsonl", b'{"speech": "a.wav"}\n' * 20)
        archive.writestr("schema.json", b"{}")
        archive.writestr("a.wav", b"RIFF\0\0\0\0WAVE" + b"x" * 500)
    return out.getvalue()


def test_archives_with_changed_bytes_are_read_or_refused_and_nothing_else() -> None:
    random, content, outcomes = Random(SEED), whole(), Counter[str]()
    for _ in range(500):
        broken = bytearray(content)
        for _ in range(random.randint(1, 6)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        try:
            with opened_archive(io.BytesIO(bytes(broken))) as archive:
                AudioIntake(archive.files).take("a.wav")
                outcomes["read"] += 1
        except (DatasetInvalid, BadAudio):
            outcomes["refused"] += 1
    assert outcomes.total() == 500, f"seed {SEED}"
    assert min(outcomes["read"], outcomes["refused"]) > 0, f"seed {SEED}"


def test_a_list_of_files_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 100)
    with (
        pytest.raises(DatasetInvalid, match="too many files"),
        opened_archive(io.BytesIO(whole())),
    ):
        pass


def test_nothing_that_an_archive_names_is_written_to_disk() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../tmp/d/items.csv", b"a\n1\n")
        archive.writestr("../../tmp/d/a.wav", b"RIFF\0\0\0\0WAVE")
    with opened_archive(out) as opened:
        assert opened.table.read() == b"a\n1\n"
        assert AudioIntake(opened.files).take("a.wav")["bytes"] == 12


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/../b", "/a", "a\\b", "a\0b", "a\nb", "x" * 2000]
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(BadAudio):
        file_of(name)


def test_a_name_may_be_in_any_script() -> None:
    assert file_of("clips/你好 ü.wav") == ("clips/你好 ü.wav", None)
    assert file_of({"file": "./a//b.wav", "sha256": "0"}) == ("a/b.wav", "0")


def test_the_beginning_of_a_file_says_what_it_is() -> None:
    assert media_type_of("a.bin", b"fLaC....") == "audio/flac"
    assert media_type_of("a.MP3", b"\xff\xfb") == "audio/mpeg"
    with pytest.raises(BadAudio, match=r"a\.html is no audio file"):
        media_type_of("a.html", b"<html>")


def wav_head(rate: int, data_bytes: int, *, before: bytes = b"") -> bytes:
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16)
    return b"RIFF\0\0\0\0WAVE" + before + form + b"data" + struct.pack("<I", data_bytes)


def test_a_wav_file_tells_how_long_it_plays_if_its_header_makes_sense() -> None:
    head = wav_head(16_000, 32_000)
    assert wav_duration_ms(head, len(head) + 32_000) == 1000
    assert wav_duration_ms(head, len(head) + 16_000) == 500  # it was cut off
    odd = wav_head(16_000, 32_000, before=b"LIST" + struct.pack("<I", 3) + b"abc\0")
    assert wav_duration_ms(odd, len(odd) + 32_000) == 1000
    assert wav_duration_ms(wav_head(0, 32_000), 40_000) is None
    assert wav_duration_ms(b"RIFF\0\0\0\0WAVEfmt ", 16) is None


def test_a_file_without_a_name_is_refused() -> None:
    nameless = whole().replace(b"a.wav", b"\0.wav")
    with (
        pytest.raises(DatasetInvalid, match="has no name"),
        opened_archive(io.BytesIO(nameless)),
    ):
        pass
