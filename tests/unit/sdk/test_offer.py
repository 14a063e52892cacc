from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DragomanError, InvalidCapabilitySchema, SettingsError
from dragoman.live.protocol import Device, Service, ServiceStatus, ServiceType
from dragoman.sdk import Answer, Job, MachineUsage, Node, node_url, this_machine

MODEL = Service("nmt-large", ServiceType.NMT, Device.GPU, ServiceStatus.RUNNING, "3")


async def work(job: Job) -> Answer:
    return Answer()


class Slots(int):
    """A number of another library's class, as numpy has them."""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"work": work}, "offers nothing"),
        ({"work": work, "nmt": "en"}, 'give a list, as in nmt=\\["en"\\]'),
        ({"work": work, "nmt": ["e"]}, "`nmt` holds 'e', which is not a language tag"),
        ({"work": work, "nmt": ["en", "english"]}, "`nmt` holds 'english', which is not"),
        ({"work": work, "tts": ["en_US"]}, "`tts` holds 'en_US', which is not a language tag"),
        ({"work": work, "asr": ["auto"]}, "`asr` is `auto`"),
        ({"work": work, "asr": [None]}, "`asr` holds None"),
        ({"work": work, "nmt": None}, "`nmt` is None; give a list of languages"),
        ({"work": work, "nmt": {"en": "es"}}, "`nmt` is {'en': 'es'}; give a list of languages"),
        ({"work": work, "nmt": ["en"], "slots": 0}, "^`slots` is 0"),
        ({"work": work, "nmt": ["en"], "slots": "2"}, "^`slots` is '2'"),
        ({"work": work, "nmt": ["en"], "slots": 1_000_000}, "^`slots` is 1000000"),
        ({"work": work, "nmt": ["en"], "node_id": "two words"}, "^`node_id` does not fit"),
        ({"work": work, "nmt": ["en"], "models": []}, "offers nothing"),
        ({"work": work, "nmt": ["en"], "models": [MODEL, MODEL]}, "^`models` names service_id"),
        ({"work": "translate", "nmt": ["en"]}, "`work` is str 'translate'; give a function"),
        ({"services": {"nmt": None}, "nmt": ["en"]}, r'`services\["nmt"\]` is NoneType None'),
        ({"work": lambda: 1, "nmt": ["en"]}, r"^`work` is <lambda>\(\), which cannot be called"),
        ({"work": lambda job, more: 1, "nmt": ["en"]}, "missing a required argument: 'more'"),
        (
            {"services": {"nmt": lambda: 1}, "nmt": ["en"]},
            r'^`services\["nmt"\]` is <lambda>\(\), which cannot',
        ),
        ({"work": work, "nmt": ["en"], "features": ["xx"]}, "unknown feature `xx` in `features`"),
        (
            {"work": work, "nmt": ["en"], "features": "voice_cloning"},
            r'give a list, as in features=\["voice_cloning"\]',
        ),
        ({"work": work, "nmt": ["en"], "slots": Slots(2)}, "^`slots` is 2; give a plain value"),
        ({"nmt": ["en"]}, "give one of the two"),
        ({"work": work, "services": {"nmt": work}, "nmt": ["en"]}, "give one of the two"),
        ({"services": {"nmt": work}, "nmt": ["en"], "tts": ["en"]}, "no tts function"),
        ({"services": {"nmt": work, "asr": work}, "nmt": ["en"]}, "it has no languages"),
    ],
)
def test_an_offer_that_a_scheduler_would_refuse_is_refused_before_connecting(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidCapabilitySchema, match=says):
        Node("ws://127.0.0.1:1", **options)


def test_an_unknown_argument_of_a_node_is_refused() -> None:
    with pytest.raises(TypeError, match="'languages'"):
        Node("ws://127.0.0.1:1", work=work, languages=["en"])  # type: ignore[call-arg]


def test_models_are_offered_under_the_ids_they_are_given() -> None:
    model = Service("nmt-large", ServiceType.NMT, Device.GPU, ServiceStatus.RUNNING, "3")
    node = Node("ws://127.0.0.1:1", work=work, nmt=["en"], models=[model])
    assert node._offer.services == (model,)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ws://localhost:8080", "ws://localhost:8080/ws/node"),
        ("wss://example.org/", "wss://example.org/ws/node"),
        ("ws://localhost:8080/behind/ws/node", "ws://localhost:8080/behind/ws/node"),
    ],
)
def test_an_address_without_a_path_means_the_door_for_nodes(given: str, meant: str) -> None:
    assert node_url(given) == meant


@pytest.mark.parametrize(
    "given", ["localhost:8080", "ftp://localhost", "ws://", "ws://[::1", "ws://host:ninety"]
)
def test_what_is_no_address_of_a_scheduler_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="write it like ws://"):
        node_url(given)


def test_usage_is_what_happened_since_the_last_reading(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 0 100 0 0 0 0 0 0\n")
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")
    usage = MachineUsage(tmp_path)
    assert (usage().cpu_percent, usage().mem_percent) == (0.0, 75.0), "the first says nothing"
    (tmp_path / "stat").write_text("cpu  130 0 0 160 10 0 0 0 0 0\n")
    assert usage().cpu_percent == 30.0
    (tmp_path / "stat").write_text("cpu  139 0 0 160 10 0 0 0 0 0\n")
    assert usage().cpu_percent == 30.0, "over milliseconds it says nothing new"


def test_a_machine_that_tells_nothing_counts_as_idle(tmp_path: Path) -> None:
    reading = MachineUsage(tmp_path)()
    assert (reading.cpu_percent, reading.mem_percent) == (0.0, 0.0)
    assert this_machine(tmp_path).cpu_cores >= 1


def test_errors_of_the_sdk_are_in_the_tree() -> None:
    from dragoman.sdk import JobFailed, ModelMissing

    assert issubclass(JobFailed, DragomanError)
    assert issubclass(ModelMissing, DragomanError)
