"""Scenario files: what is read, and that a mistake is named with its file, key and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.errors import SettingsError
from dragoman.simulation import (
    EXAMPLE,
    Exponential,
    Fault,
    FaultKind,
    FleetGroup,
    Scenario,
    TrafficKind,
    faults_as_toml,
    parse_scenario,
    read_scenario,
    scenario_file,
)
from dragoman.simulation.scenario import curve_factor

_COMMENTED_KEY = re.compile(r"\n# (\[\[fault\]\]|[a-z_]+ = )")


def test_an_empty_file_is_a_scenario_of_defaults() -> None:
    assert parse_scenario("") == Scenario()


def test_the_example_names_every_key_that_there_is() -> None:
    scenario = parse_scenario(_COMMENTED_KEY.sub(r"\n\1", EXAMPLE))
    assert scenario.faults[0].kind is FaultKind.NODE
    assert scenario.fleet[0].slots == 4
    assert scenario.traffic[1].kind is TrafficKind.JOBS
    for table in ("_SIMULATION", "_FLEET", "_TRAFFIC", "_FAULT"):
        for key in getattr(scenario_file, table):
            assert key in EXAMPLE or key == "tenant", f"the example does not show `{key}`"


def test_tables_become_what_they_say() -> None:
    scenario = parse_scenario(
        """
        [simulation]
        start_time = "18:30"
        instances = 2
        [[fleet]]
        name = "rack-1"
        nodes = 3
        languages = ["zh", "en"]
        tts = ["en"]
        service_ms = { mean = 250 }
        [[traffic]]
        pair = "zh:en, zh"
        sessions = 7
        curve = { "20:00" = 2, "08:00" = 1 }
        [[fault]]
        kind = "redis"
        at_seconds = 30
        [settings.scheduler.selection]
        strategy = "least_loaded"
        """,
        name="night",
    )
    assert scenario.name == "night"
    assert scenario.start_second_of_day == 18.5 * 3600
    assert scenario.fleet == (
        FleetGroup(
            name="rack-1",
            nodes=3,
            languages=("zh", "en"),
            tts=("en",),
            service_ms=Exponential(250),
        ),
    )
    assert scenario.traffic[0].pairs == ("zh:en", "zh:zh")
    assert scenario.traffic[0].curve == ((8 * 3600.0, 1.0), (20 * 3600.0, 2.0))
    assert scenario.faults == (Fault(kind=FaultKind.REDIS, at_seconds=30),)
    assert scenario.full_settings().scheduler.selection.strategy == "least_loaded"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = [", "not TOML"),
        ("[fleets]", "no `fleets` here; did you mean `fleet`?"),
        ("[fleet]\nnodes = 3", "with two brackets"),
        ("simulation = 3", "[simulation]: this must be a table"),
        ("[simulation]\nduration = 3", "did you mean `duration_seconds`?"),
        ("[simulation]\nduration_seconds = 'long'", "`duration_seconds`: it must be a number"),
        ("[simulation]\nduration_seconds = nan", "`duration_seconds`: it must be a number"),
        (
            "[simulation]\nstart_time = '25:00'",
            '`start_time`: it must be a time of day such as "09',
        ),
        ("[simulation]\nwarmup_seconds = 9000", "shorter than `duration_seconds`"),
        ("[simulation]\ninstances = 0", "`instances`: it must be a whole number from 1 to 16"),
        ("[simulation]\ninstances = 1.5", "`instances`: it must be a whole number"),
        ("[[fleet]]\nslots = true", "[[fleet]] number 1 `slots`: it must be a whole number"),
        ("[[fleet]]\n[[fleet]]\nslotz = 1", "[[fleet]] number 2: there is no `slotz` here"),
        ("[[fleet]]\nlanguages = 'en'", "`languages`: it must be a list of languages"),
        ("[[fleet]]\nlanguages = ['e n']", "'e n' is not a language tag"),
        ("[[fleet]]\nname = 'a b'", "`name`: it must be a name"),
        ("[[fleet]]\nname='a'\n[[fleet]]\nname='a'", "two are called 'a'; rename one"),
        ("[[fleet]]\nmin_nodes = 5\nmax_nodes = 4", "it is over `max_nodes`"),
        ("[[fleet]]\nservice_ms = {metrics='none.txt'}", "`service_ms`: none.txt cannot be read"),
        ("[[traffic]]", "[[traffic]] number 1: it has no sessions; set `sessions`"),
        ("[[traffic]]\nkind = 'session'", "did you mean 'sessions'?"),
        ("[[traffic]]\nkind = 'jobs'", "it has no jobs; set `jobs_per_second`"),
        ("[[traffic]]\nsessions = 1\npair = 'en'", '`pair`: it must be a pair such as "en:es"'),
        ("[[traffic]]\nsessions = 1\njobs_per_second = 1", "this is for `kind` jobs or batch"),
        ("[[traffic]]\nkind='jobs'\njobs_per_second=1\npair='a:b,c'", "a job has one target"),
        ("[[traffic]]\nsessions = 1\ncurve = {}", "times of day and factors"),
        ("[[traffic]]\nsessions = 1\ncurve = { '09:00' = 0 }", "there would be no traffic"),
        ("[[fault]]\nkind = 'node'", "[[fault]] number 1: `at_seconds` is missing"),
        ("[[fault]]\nkind = 'fire'\nat_seconds = 1", "it must be one of node, group, link"),
        ("[[fault]]\nkind = 'redis'\nat_seconds = 1", "needs several instances; set `instances`"),
        ("[[fault]]\nkind = 'group'\nat_seconds = 1", "`group` is missing"),
        ("[[fault]]\nkind='node'\nat_seconds=1\ngroup='nods'", "did you mean 'nodes'?"),
        ("[settings]\nscheduler.selection.strategy = 'best'", "[settings]:"),
        ("[settings]\nscheduler.selection.stratgy = 'random'", "[settings]:"),
        ("settings = 4", "[settings]: this must be a table"),
    ],
)
def test_a_mistake_is_named_with_its_file_key_and_remedy(text: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_scenario(text, source="monday.toml")
    assert caught.value.message.startswith("monday.toml: ")
    assert named in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml: the file cannot be read"):
        read_scenario(tmp_path / "missing.toml")
    broken = tmp_path / "latin.toml"
    broken.write_bytes(b"# caf\xe9")
    with pytest.raises(SettingsError, match=r"latin\.toml: the file is not UTF-8"):
        read_scenario(broken)


def test_a_curve_is_a_straight_line_between_its_points_and_goes_on_after_midnight() -> None:
    curve = ((6 * 3600.0, 1.0), (18 * 3600.0, 3.0))
    assert curve_factor(curve, 6 * 3600) == 1.0
    assert curve_factor(curve, 12 * 3600) == 2.0
    assert curve_factor(curve, 0) == 2.0
    assert curve_factor(curve, 36 * 3600) == 2.0
    assert curve_factor((), 5) == 1.0


def test_faults_are_written_as_they_are_read() -> None:
    faults = (
        Fault(kind=FaultKind.NODE, at_seconds=12.5, for_seconds=3, group="nodes", nodes=2),
        Fault(kind=FaultKind.SLOW, at_seconds=20, factor=20),
    )
    assert parse_scenario(faults_as_toml(faults)).faults == faults
