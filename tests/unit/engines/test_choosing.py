"""A node's stages, each chosen by itself; engines of other packages among them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.engines import (
    EngineKind,
    Opening,
    Requirement,
    Stage,
    StageKind,
    assemble,
    engine_names,
    every_engine,
)
from dragoman.engines.staged import StagedEngine, among_each_other
from dragoman.errors import ExtraMissing, SettingsError
from dragoman.live.protocol import Mode, ServiceType
from dragoman.sdk import Answer, Device, Job, JobFailed, Service, ServiceStatus

ASR, SEMANTIC, NMT, TTS = (ServiceType(name) for name in ("asr", "semantic", "nmt", "tts"))

PLUGIN = """
import msgspec
from dragoman.engines import EngineKind, Requirement, Stage, StageKind
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, Device, Service, ServiceStatus

class Options(msgspec.Struct, forbid_unknown_fields=True):
    word: str

class Shouting(Stage):
    languages = ("en", "es")
    def __init__(self, options, opening):
        self.service = Service("shouting", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING)
        self.word = options.word
    async def work(self, job):
        return Answer(text_translated=f"{job.text} {self.word}")

ENGINE = EngineKind(
    summary="shouts",
    stages={ServiceType.NMT: StageKind(summary="lungs", options=Options, open=Shouting)},
)
NEEDY = EngineKind(
    summary="needs something",
    stages={
        ServiceType.TTS: StageKind(
            summary="a horn",
            open=Shouting,
            requirements=lambda: [Requirement("the program horn", False, "apt install horn")],
        )
    },
)
NO_KIND = 7
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with engines of its own, good and bad."""
    (tmp_path / "shouting_engine.py").write_text(PLUGIN)
    facts = tmp_path / "shouting-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[dragoman.engines]\n"
        "shouting = shouting_engine:ENGINE\n"
        "needy = shouting_engine:NEEDY\n"
        "absent = no_such_module:ENGINE\n"
        "number = shouting_engine:NO_KIND\n"
        "simulated = shouting_engine:NO_KIND\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def test_each_stage_is_done_by_the_engine_that_its_table_names(plugin: None) -> None:
    tables = {"nmt": {"engine": "shouting", "word": "!"}, "tts": {"engine": "none"}}
    node = assemble("simulated", tables, {}, defaults={"simulated": {"profile": "instant"}})
    assert node.services is not None
    assert node.models is not None
    assert list(node.services) == ["asr", "semantic", "nmt"]
    assert [model.service_id for model in node.models] == [
        "simulated-asr",
        "simulated-semantic",
        "shouting",
    ]
    assert node.languages[NMT] == ["en", "es"]
    translate: Any = node.services["nmt"]
    answer = asyncio.run(translate(Job(src_lang="en", tgt_lang="es", text="hello")))
    assert answer.text_translated == "hello !"


def test_an_engine_that_does_every_stage_may_do_whole_jobs() -> None:
    node = assemble("simulated", {}, {}, defaults={"simulated": {"seed": 4}})
    assert node.work is not None
    assert (node.services, node.models) == (None, None)


def test_the_engines_of_other_packages_are_listed_and_none_replaces_a_built_in_one(
    plugin: None,
) -> None:
    assert {"shouting", "needy", "absent", "number"} < set(engine_names())
    assert engine_names().count("simulated") == 1
    problems = {name: problem for name, _, problem in every_engine()}
    assert problems["simulated"] is problems["shouting"] is None
    assert "no_such_module" in str(problems["absent"])
    assert "is int, not EngineKind" in str(problems["number"])


@pytest.mark.parametrize(
    ("engine", "tables", "says"),
    [
        ("magic", {}, "there is no engine `magic`; known are simulated"),
        ("simulated", {"tone": {}}, "there is no stage `tone`; a node has asr, semantic, nmt, tts"),
        ("simulated", {"asr": {"engine": "magic"}}, "there is no engine `magic`"),
        ("simulated", {"asr": {"engine": 5}}, "`stages.asr.engine` is 5; give an engine's name"),
        ("simulated", {"asr": {"engine": "shouting"}}, "has no asr stage; it has nmt"),
        ("simulated", {"nmt": {"engine": "shouting"}}, "missing required field `word`"),
        (
            "simulated",
            {"asr": {"profil": "x"}},
            r"unknown field `profil`; it takes profile\?, seed\?",
        ),
        ("simulated", {"asr": {"seed": []}}, "`stages.asr` does not fit the engine `simulated`"),
        ("shouting", {}, "does nothing without options; .* --set nmt.word="),
        ("absent", {}, "cannot be loaded"),
        ("simulated", {n: {"engine": "none"} for n in ("asr", "semantic", "nmt", "tts")}, "left"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_with_what_is_wrong(
    plugin: None, engine: str, tables: Mapping[str, Mapping[str, Any]], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        assemble(engine, tables, {})


def test_options_of_an_engine_that_none_of_its_stages_has_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"no stage of the engine `simulated` has .* `colour`"):
        assemble("simulated", {}, {}, defaults={"simulated": {"colour": "red"}})


def test_what_is_missing_on_this_machine_is_named_with_the_command_that_installs_it(
    plugin: None,
) -> None:
    with pytest.raises(ExtraMissing, match=r"needs the program horn, .* run `apt install horn`"):
        assemble("needy", {}, {})


# --- languages ------------------------------------------------------------------------------------


class Fixed(Stage):
    """A stage that knows what it is told to know, and answers what it is told to."""

    def __init__(
        self,
        kind: ServiceType,
        languages: tuple[str, ...] | None,
        answer: Answer | None = None,
        pairs: frozenset[tuple[str, str]] | None = None,
    ) -> None:
        self.service = Service(f"fixed-{kind}", kind, Device.CPU, ServiceStatus.RUNNING)
        self.languages = languages
        self.pairs = pairs
        self.answer = answer or Answer()
        self.asked: list[Job] = []

    async def work(self, job: Job) -> Answer:
        self.asked.append(job)
        return self.answer


def test_voices_for_languages_that_the_translator_does_not_reach_are_not_offered() -> None:
    pairs = frozenset({("en", "es"), ("es", "en"), ("ca", "it")})
    stages = {
        ASR: Fixed(ASR, ("en",)),
        NMT: Fixed(NMT, ("ca", "en", "es", "it"), pairs=pairs),
        TTS: Fixed(TTS, ("af", "en", "es-419", "it")),
    }
    engine = StagedEngine(stages, {})
    assert engine.languages == {ASR: ["en"], NMT: ["en", "es"], TTS: ["en", "es-419"]}


@pytest.mark.parametrize(
    ("pairs", "heard", "offered"),
    [
        ("en>es es>en", "en", "en es"),
        ("en>es es>en en>ca ca>en es>ca ca>es", "en", "en ca es"),
        # es>ca is missing: whoever lists all three promises it.
        ("en>es es>en en>ca ca>en ca>es", "en", "en ca"),
        ("en>es", "en", "en es"),
        ("en>es en>de", "en", "en de es"),
        ("en>es fr>de", "fr", "fr de"),
        ("ca>it it>ca", "en", "ca it"),
    ],
)
def test_a_translator_of_pairs_offers_languages_that_hold_in_every_direction(
    pairs: str, heard: str, offered: str
) -> None:
    known = {tuple(pair.split(">")) for pair in pairs.split()}
    found = among_each_other({(one, other) for one, other in known}, heard.split())
    assert found == offered.split()


def test_a_stage_without_languages_of_its_own_is_told_them_and_others_are_checked() -> None:
    stages = {ASR: Fixed(ASR, None), TTS: Fixed(TTS, ("en", "es"))}
    with pytest.raises(SettingsError, match=r"asr stage does not know .*--asr en,es"):
        StagedEngine(stages, {})
    with pytest.raises(SettingsError, match=r"fixed-tts.* does not know `fr`; it knows en, es"):
        StagedEngine(stages, {TTS: ["fr"]})
    with pytest.raises(SettingsError, match=r"nmt languages .* no engine for nmt"):
        StagedEngine(stages, {NMT: ["fr"]})
    engine = StagedEngine(stages, {ASR: ["xh", "zu"]})
    assert list(engine.functions) == ["asr"], "a stage that was not asked for is left out"
    regional = StagedEngine(stages, {TTS: ["es-MX"]})
    assert regional.languages[TTS] == ["es-MX"]


def _heard(job: Job, detected: str | None) -> Answer:
    stage = Fixed(ASR, ("en", "es"), Answer(text_asr="hola", src_lang_detected=detected))
    work = StagedEngine({ASR: stage}, {}).functions["asr"]
    return asyncio.run(work(job))


def test_a_detected_language_settles_where_the_job_goes() -> None:
    two_way = Job(
        src_lang="auto", tgt_lang="*", mode=Mode.TWO_WAY_AUTO, lang_a="en-GB", lang_b="es"
    )
    answer = _heard(two_way, "es")
    assert (answer.src_lang_detected, answer.tgt_lang) == ("es", "en-GB")
    answer = _heard(two_way, "en")
    assert (answer.src_lang_detected, answer.tgt_lang) == ("en-GB", "es")
    automatic = Job(src_lang="auto", tgt_lang="en", auto_langs=("es", "fr"))
    answer = _heard(automatic, "es")
    assert (answer.src_lang_detected, answer.tgt_lang) == ("es", None)
    for heard in ("de", None):
        with pytest.raises(JobFailed, match=r"heard (de|no language).*, not one of es, fr"):
            _heard(automatic, heard)


def test_of_nothing_said_nothing_is_made_and_no_model_is_asked() -> None:
    stages = {NMT: Fixed(NMT, ("en", "es")), TTS: Fixed(TTS, ("en", "es"))}
    functions = StagedEngine(stages, {}).functions
    silent = Job(src_lang="en", tgt_lang="es", text="  ")
    translated = asyncio.run(functions["nmt"](silent))
    assert translated == Answer(text_translated="")
    assert asyncio.run(functions["tts"](silent)) == Answer()
    assert stages[NMT].asked == stages[TTS].asked == []


def test_stages_are_warm_before_the_block_and_closed_after_it_also_when_one_fails() -> None:
    told: list[str] = []

    class Told(Fixed):
        async def warm_up(self) -> None:
            told.append(f"{self.service.type} warm")
            if self.service.type is TTS:
                raise SettingsError("the voice is missing")

        async def close(self) -> None:
            told.append(f"{self.service.type} closed")

    engine = StagedEngine({NMT: Told(NMT, ("en",)), TTS: Told(TTS, ("en",))}, {})

    async def scenario() -> None:
        async with engine.lifespan():
            raise AssertionError("not reached")

    with pytest.raises(SettingsError, match="the voice is missing"):
        asyncio.run(scenario())
    assert told == ["nmt warm", "tts warm", "tts closed", "nmt closed"]


def test_a_kind_of_stage_works_by_itself_unless_an_option_is_required() -> None:
    class Needed(msgspec.Struct):
        model: str

    def never(_: object, __: Opening) -> Stage:
        raise AssertionError

    assert StageKind(summary="", open=never).works_by_itself
    assert not StageKind(summary="", open=never, options=Needed).works_by_itself
    assert EngineKind(summary="", stages={}).whole is None
    assert not Requirement("x", False, "y").found


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("command", {"command": ["cat"]}),
        ("openai", {"model": "m", "url": "http://127.0.0.1:9/v1"}),
        ("whisper", {"model": "no-such-folder", "offline": True, "device": "cpu"}),
    ],
)
def test_a_service_has_the_version_that_its_table_names(
    engine: str, options: dict[str, Any]
) -> None:
    """A canary, and a job, ask for it."""
    named = {"service_id": "translator", "version": "2", "languages": ["en", "es"]}
    node = assemble(engine, {"nmt": {**options, **named}, "asr": {"engine": "none"}}, {})
    assert node.models is not None
    [model] = [one for one in node.models if one.type is NMT]
    assert (model.service_id, model.version) == ("translator", "2")
