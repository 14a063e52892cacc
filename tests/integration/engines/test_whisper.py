"""Whisper, NLLB and Marian: tiny random models in the real formats, loaded and run for real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.engines.tiny_models import tiny_marian, tiny_nllb, tiny_whisper
from tests.unit.audio.sounds import tone

from dragoman.engines import Opening, Stage, assemble, engine_kind
from dragoman.errors import SettingsError
from dragoman.live.protocol import GlossaryTerm, PastUtterance, ServiceType
from dragoman.sdk import Answer, Job, JobFailed, ModelMissing

SOUND = tone(440, 1.0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "whisper": tiny_whisper(folder / "whisper-tiny"),
        "nllb": tiny_nllb(folder / "nllb-tiny"),
        "marian": tiny_marian(folder / "opus-mt-en-es"),
    }


def on(
    kind: str, script: Callable[[Stage], Awaitable[Any]], *, slots: int = 1, **options: Any
) -> Any:
    made = engine_kind("whisper").stages[ServiceType(kind)]

    async def scenario() -> Any:
        stage = made.open(made.options(device="cpu", **options), Opening(slots=slots))
        try:
            await stage.warm_up()
            return await script(stage)
        finally:
            await stage.close()

    return asyncio.run(scenario())


def text_job(text: str, src_lang: str = "en", tgt_lang: str = "es") -> Job:
    return Job(src_lang=src_lang, tgt_lang=tgt_lang, text=text)


def speech_job(src_lang: str = "en", **fields: Any) -> Job:
    return Job(src_lang=src_lang, tgt_lang="es", audio=SOUND.samples, **fields)


# --- recognition ----------------------------------------------------------------------------------


def test_whisper_is_loaded_from_a_folder_and_hears(models: dict[str, Path]) -> None:
    async def script(stage: Stage) -> list[Answer]:
        assert stage.service.service_id == "whisper-tiny-asr"
        jobs = [speech_job(), speech_job("en-GB"), speech_job(padding_ms=200)]
        return list(await asyncio.gather(*map(stage.work, jobs)))

    first, second, padded = on("asr", script, model=str(models["whisper"]), slots=2, beam_size=1)
    assert first.text_asr
    assert first == second
    assert first.src_lang_detected is None
    assert padded.text_asr is not None


def test_whisper_listens_for_the_words_of_the_glossary(models: dict[str, Path]) -> None:
    words = (GlossaryTerm("Dragoman"), GlossaryTerm("gate", "puerta"))

    async def script(stage: Stage) -> list[Answer]:
        return [await stage.work(speech_job()), await stage.work(speech_job(glossary=words))]

    plain, with_words = on("asr", script, model=str(models["whisper"]), beam_size=1)
    # The model is random: that the words reach it shows in that it says something else.
    assert with_words.text_asr
    assert with_words.text_asr != plain.text_asr


def test_whisper_knows_what_was_said_before_in_the_language_that_it_hears(
    models: dict[str, Path],
) -> None:
    before = PastUtterance("w17 w18 w19", "", "en", "es")
    other = PastUtterance("w17 w18 w19", "", "es", "en")

    async def script(stage: Stage) -> list[Answer]:
        contexts = ((), (other,), (before,))
        return [await stage.work(speech_job(context=context)) for context in contexts]

    plain, foreign, knowing = on("asr", script, model=str(models["whisper"]), beam_size=1)
    assert foreign.text_asr == plain.text_asr
    # The model is random: that the words reach it shows in that it says something else.
    assert knowing.text_asr != plain.text_asr


def test_a_model_tells_its_languages_where_its_owner_does_not(models: dict[str, Path]) -> None:
    def offered(**tables: dict[str, str]) -> Mapping[ServiceType, Sequence[str]]:
        return assemble("whisper", tables, {}).languages

    found = offered(asr={"model": str(models["whisper"])}, nmt={"model": str(models["nllb"])})
    assert {"en", "es", "yue"} <= set(found[ServiceType.ASR])
    assert len(found[ServiceType.ASR]) == 100
    assert {"en", "es"} <= set(found[ServiceType.NMT])
    assert offered(asr={"model": "tiny.en"})[ServiceType.ASR] == ["en"]
    assert len(offered(asr={"model": "tiny"})[ServiceType.ASR]) == 100
    with pytest.raises(SettingsError, match="does not know its languages; name them"):
        offered(nmt={"model": str(models["marian"])})


def test_where_the_language_is_open_whisper_says_which_it_was(models: dict[str, Path]) -> None:
    async def script(stage: Stage) -> Answer:
        return await stage.work(speech_job("auto", auto_langs=("en", "es")))

    answer: Answer = on("asr", script, model=str(models["whisper"]), beam_size=1)
    assert answer.src_lang_detected == "en"


def test_no_audio_is_heard_as_nothing_said(models: dict[str, Path]) -> None:
    async def script(stage: Stage) -> Answer:
        return await stage.work(Job(src_lang="en", tgt_lang="es", audio=b""))

    assert on("asr", script, model=str(models["whisper"])) == Answer(text_asr="")


# --- translation ----------------------------------------------------------------------------------


def test_nllb_translates_and_gathers_texts_of_several_languages(models: dict[str, Path]) -> None:
    async def script(stage: Stage) -> None:
        jobs = [
            text_job("the house is big"),
            text_job("good morning", "en-GB", "de"),
            text_job("la casa", "es", "en"),
        ]
        together = await asyncio.gather(*map(stage.work, jobs))
        alone = [await stage.work(job) for job in jobs]
        assert [one.text_translated for one in together] == [one.text_translated for one in alone]
        assert all(one.text_translated for one in together)
        with pytest.raises(JobFailed, match="does not translate from en into xx"):
            await stage.work(text_job("hello", "en", "xx"))

    on("nmt", script, model=str(models["nllb"]), max_length=8, batch_size=3, batch_wait_ms=200)


def test_marian_translates_in_its_one_direction(models: dict[str, Path]) -> None:
    async def script(stage: Stage) -> Answer:
        with pytest.raises(JobFailed, match="does not translate from es into en"):
            await stage.work(text_job("la casa", "es", "en"))
        return await stage.work(text_job("the house"))

    answer: Answer = on(
        "nmt", script, model=str(models["marian"]), max_length=8, src_lang="en", tgt_lang="es"
    )
    assert answer.text_translated


def test_a_marian_model_without_its_direction_is_refused(models: dict[str, Path]) -> None:
    async def script(_: Stage) -> None:
        raise AssertionError("it does not start")

    with pytest.raises(SettingsError, match="has one direction; give `src_lang` and `tgt_lang`"):
        on("nmt", script, model=str(models["marian"]))
    with pytest.raises(SettingsError, match="names one of src_lang and tgt_lang"):
        on("nmt", script, model=str(models["marian"]), src_lang="en")


# --- models that are not there --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["asr", "nmt"])
def test_a_model_that_is_not_there_is_not_available(kind: str, tmp_path: Path) -> None:
    async def script(_: Stage) -> None:
        raise AssertionError("it does not start")

    with pytest.raises(ModelMissing, match="cannot be loaded"):
        on(kind, script, model="nobody/no-such-model", offline=True)
    (tmp_path / "model.bin").write_bytes(b"no model")
    expected = ModelMissing if kind == "asr" else SettingsError
    with pytest.raises(expected, match=r"cannot be loaded|holds neither"):
        on(kind, script, model=str(tmp_path))


def test_a_node_registers_the_models_and_the_direction(models: dict[str, Path]) -> None:
    tables: dict[str, dict[str, Any]] = {
        "asr": {"model": str(models["whisper"]), "languages": ["en"]},
        "nmt": {"model": str(models["marian"]), "src_lang": "en", "tgt_lang": "es"},
    }
    node = assemble("whisper", tables, {}, slots=2)
    assert node.models is not None
    assert [model.service_id for model in node.models] == ["whisper-tiny-asr", "opus-mt-en-es-nmt"]
    assert node.languages == {ServiceType.ASR: ["en"], ServiceType.NMT: ["en", "es"]}
