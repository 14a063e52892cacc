"""The lab's pages in a real browser: experiments live, what came out of them, and every action."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from tests.browser.lab_world import (
    ENDED,
    EVALUATORS,
    MARKUP,
    SENTENCES,
    TARGETS,
    LabCaller,
    jsonl,
    spoken_archive,
)
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.integration.live_api.manual_node import ManualNode, new_pair
from tests.integration.serve.server_process import ServerProcess, eventually

expect.set_options(timeout=PATIENCE_MS)

MANY_ROWS = 450
"""More than two pages of rows."""


@pytest.fixture(scope="module")
def lab(lab_server: ServerProcess) -> Iterator[LabCaller]:
    with LabCaller(lab_server) as caller:
        yield caller


@pytest.fixture(scope="module")
def sentences(lab: LabCaller) -> dict[str, Any]:
    """A dataset with the outputs of two systems."""
    return lab.import_rows(f"sentences {MARKUP}", SENTENCES)


@pytest.fixture(scope="module")
def systems(lab: LabCaller, sentences: dict[str, Any]) -> tuple[str, str]:
    """Two experiments that have ended; the second has the better scores."""
    version_id = sentences["version_id"]
    return (
        lab.recorded(f"first {MARKUP}", version_id, "first"),
        lab.recorded("second system", version_id, "second"),
    )


def table(console: ConsolePage, name: str) -> Locator:
    return console.page.get_by_role("table", name=name, exact=True)


def counts_rows(console: ConsolePage, count: str) -> None:
    expect(console.page.get_by_role("status").filter(has_text="row")).to_have_text(count)


def nothing_was_run(console: ConsolePage) -> None:
    """Planted markup is text: there is no picture, and so nothing that failed to load."""
    assert console.page.locator("#main img").count() == 0


def test_experiments_are_listed_as_they_come_run_and_end(
    lab_console: ConsolePage, lab: LabCaller, sentences: dict[str, Any]
) -> None:
    console = lab_console
    console.go("/lab")
    console.heading("Lab")
    expect(console.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    name = f"listed live {MARKUP}"
    experiment_id = lab.submit(
        name, sentences["version_id"], {"kind": "recorded", "output": "first"}
    )
    row = table(console, "Experiments").get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("Success")
    expect(row).to_contain_text("30 / 30")
    expect(row).to_contain_text("exact 0.6667")
    nothing_was_run(console)
    row.get_by_role("link", name=name).click()
    console.heading(name)
    assert experiment_id in console.page.url


def test_a_run_shows_its_rows_as_they_are_archived_and_its_scores_at_the_end(
    lab_console: ConsolePage, lab: LabCaller, tmp_path: Path
) -> None:
    console = lab_console
    calls = tmp_path / "calls"
    rows = [{"said": f"s{n}", "meant": f"s{n}", "calls": str(calls)} for n in range(3)]
    version_id = lab.import_rows("held", rows)["version_id"]
    experiment_id = lab.submit(
        "held",
        version_id,
        {"kind": "python", "function": f"{TARGETS}:held"},
        evaluators=[{"kind": "exact", "reference": "meant"}],
        concurrency=1,
    )
    console.go(f"/lab/experiments/{experiment_id}")
    console.heading("held")
    expect(console.page.get_by_role("heading", name="Running")).to_be_visible()
    expect(console.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    console.shows("No row has been archived since this page was opened.")
    console.page.get_by_label("Items at once").fill("3")
    console.page.get_by_role("button", name="Apply").click()
    console.shows("Applied")
    assert lab.get(f"/experiments/{experiment_id}")["concurrency"] == 3
    eventually(lambda: len(calls.read_text().split()) == 3, "the new concurrency is used")
    Path(f"{calls}.released").touch()
    expect(console.page.get_by_role("cell", name="Success").first).to_be_visible()
    console.shows("3 done, 0 failed")
    console.shows("3 of 3")
    expect(table(console, "Runs").get_by_role("row")).to_have_count(2)
    expect(table(console, "Runs")).to_contain_text("exact 1")
    expect(console.page.get_by_role("heading", name="Running")).to_be_hidden()


def test_an_experiment_is_started_killed_and_deleted_after_being_asked(
    lab_console: ConsolePage, lab: LabCaller
) -> None:
    console = lab_console
    version_id = lab.import_rows("letters", [{"said": s, "meant": s} for s in "bc"])["version_id"]
    order = {
        "name": "endless",
        "dataset_version_id": version_id,
        "target": {"kind": "python", "function": f"{TARGETS}:endless"},
    }
    path = f"/experiments/{lab.post('/experiments', order)['experiment_id']}"
    console.go(f"/lab{path}")
    console.shows("It has not been started yet.")
    console.act("Start", "A run of endless over all its items starts.")
    expect(console.page.get_by_role("cell", name="Running").first).to_be_visible()
    eventually(lambda: lab.get(path)["stats"]["processing"] == 2, "the items are worked on")
    console.act("Kill", "The run of endless ends now")
    expect(console.page.get_by_role("cell", name="Terminated").first).to_be_visible()
    assert lab.get(path)["status"] == "terminated"
    console.act("Run again", "endless")
    eventually(lambda: lab.get(path)["stats"]["processing"] == 2, "the items are worked on again")
    console.act("Kill", "The run of endless ends now")
    expect(console.page.get_by_role("cell", name="Terminated").first).to_be_visible()
    console.act("Delete", "Experiment endless and all its results")
    console.heading("Lab")
    expect(console.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    assert lab.get("/experiments", name="endless")["items"] == []
    console.complaints.clear()  # the page may have asked for news of what was just deleted


def test_an_ended_experiment_shows_scores_outcomes_failures_and_groups(
    lab_console: ConsolePage, lab: LabCaller, sentences: dict[str, Any]
) -> None:
    console = lab_console
    experiment_id = lab.submit(
        "failing",
        sentences["version_id"],
        {"kind": "python", "function": f"{TARGETS}:picky"},
        mapping={"said": "first"},
        retries=0,
    )
    assert lab.ended(experiment_id)["stats"]["fail"] == 10
    console.go(f"/lab/experiments/{experiment_id}")
    console.heading("failing")
    outcomes = table(console, "Outcomes").first
    for outcome, count in (
        ("Scored", "20 of 30"),
        ("Target failed", "10 of 30"),
        ("Could not be scored", "0 of 30"),
        ("Infrastructure failed", "0 of 30"),
    ):
        row = outcomes.get_by_role("row", name=re.compile(f"^{outcome}"))
        expect(row).to_contain_text(count)
    console.page.get_by_label("Column of the input").select_option("domain")
    groups = table(console, "By group")
    expect(groups.get_by_role("row")).to_have_count(3)
    expect(groups).to_contain_text(f"news {MARKUP}")
    assert "group=domain" in console.page.url
    nothing_was_run(console)
    bars = console.page.get_by_role("list", name="Distribution of exact").get_by_role("link")
    expect(bars.last).to_have_attribute("aria-label", re.compile("20 rows"))
    failures = table(console, "Failures")
    expect(failures).to_contain_text("no x, please")
    failures.get_by_role("link", name="TARGET_ERROR").click()
    console.heading("Rows of failing")
    counts_rows(console, "10 rows")
    console.go(f"/lab/experiments/{experiment_id}")
    bars.last.click()
    console.heading("Rows of failing")
    counts_rows(console, "20 rows")


def test_failures_are_retried_and_quality_is_shown_over_the_runs(
    lab_console: ConsolePage, lab: LabCaller
) -> None:
    console = lab_console
    rows = [{"said": f"{letter}{number}", "meant": "b"} for letter in "xb" for number in range(3)]
    version_id = lab.import_rows("lucky", rows)["version_id"]
    experiment_id = lab.submit(
        "lucky",
        version_id,
        {"kind": "python", "function": f"{TARGETS}:second_time_lucky"},
        evaluators=[{"kind": "contains", "reference": "meant"}],
        retries=0,
    )
    lab.ended(experiment_id)
    console.go(f"/lab/experiments/{experiment_id}")
    console.shows("3 failed")
    assert console.page.get_by_role("heading", name="Quality over time").count() == 0
    console.act("Retry failures", "Items of lucky that failed")
    console.shows("6 done, 0 failed")
    runs = table(console, "Runs")
    expect(runs.get_by_role("row")).to_have_count(3)
    expect(runs).to_contain_text("contains 0.5")
    drawn = "contains: its mean and interval at the end of each run"
    expect(console.page.get_by_role("img", name=drawn)).to_be_visible()


def test_rows_are_filtered_as_text_and_as_chips_and_sorted_and_the_address_has_it_all(
    lab_console: ConsolePage, systems: tuple[str, str]
) -> None:
    console = lab_console
    console.go(f"/lab/experiments/{systems[0]}/rows")
    console.heading(f"Rows of first {MARKUP}")
    counts_rows(console, "30 rows")
    nothing_was_run(console)
    console.page.keyboard.press("/")
    console.page.keyboard.type("score.exact = 1 and")
    console.shows("a field is missing")
    console.page.keyboard.type(' input.domain = "chat"')
    console.page.keyboard.press("Enter")
    counts_rows(console, "10 rows")
    chips = console.page.get_by_role("list", name="Conditions").get_by_role("listitem")
    expect(chips).to_have_text(["score.exact = 1", 'input.domain = "chat"'])
    console.page.get_by_label("Field").select_option("input.source")
    console.page.get_by_label("Comparison").select_option("contains")
    console.page.get_by_label("Value").fill("morning 1")
    console.page.get_by_role("button", name="Add").click()
    counts_rows(console, "5 rows")
    expect(console.page.get_by_label("Filter")).to_have_value(
        'score.exact = 1 and input.domain = "chat" and input.source contains "morning 1"'
    )
    console.page.get_by_role("button", name="Remove score.exact = 1").click()
    counts_rows(console, "6 rows")
    rows = table(console, "Rows").get_by_role("row")
    console.page.get_by_role("button", name="chrf").click()
    expect(console.page.get_by_role("columnheader", name="chrf")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(rows.nth(1)).to_contain_text("x días")
    console.page.get_by_role("button", name="chrf").click()
    expect(rows.nth(1)).to_contain_text("buenos días")
    console.page.get_by_label("Sort by").select_option("input.source")
    console.page.get_by_label("Direction").select_option("asc")
    expect(rows.nth(1)).to_contain_text("good morning 1 ")
    shared = console.page.url
    assert "sort=input.source" in shared
    console.page.goto(shared)
    counts_rows(console, "6 rows")
    expect(rows.nth(1)).to_contain_text("good morning 1 ")
    console.go(f"/lab/experiments/{systems[0]}/rows?filter=score.nothing%20%3C%201")
    expect(console.page.get_by_role("alert")).to_contain_text("No evaluator of")
    console.complaints.clear()  # the browser tells of each answer that is no success


def test_further_rows_come_as_the_reader_scrolls(lab_console: ConsolePage, lab: LabCaller) -> None:
    console = lab_console
    rows = [{"said": f"{number:05}", "meant": "00007"} for number in range(MANY_ROWS)]
    version_id = lab.import_rows("many", rows)["version_id"]
    experiment_id = lab.recorded(
        "many", version_id, "said", evaluators=[{"kind": "exact", "reference": "meant"}]
    )
    console.go(f"/lab/experiments/{experiment_id}/rows?sort=input.said&desc=true")
    console.shows(f"200 of {MANY_ROWS} rows read")
    region = console.page.get_by_role("region", name="Rows")
    shown = table(console, "Rows").get_by_role("row")
    expect(shown.nth(1)).to_contain_text(f"{MANY_ROWS - 1:05}")
    assert shown.count() < 100
    region.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    console.shows(f"400 of {MANY_ROWS} rows read")
    region.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    counts_rows(console, f"{MANY_ROWS} rows")
    region.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    expect(shown.last).to_contain_text("00000")
    # A column of texts is compared with text, though only digits are written.
    console.page.get_by_label("Field").select_option("input.said")
    console.page.get_by_label("Value").fill("00012")
    console.page.get_by_role("button", name="Add").click()
    counts_rows(console, "1 row")
    expect(console.page.get_by_label("Filter")).to_have_value('input.said = "00012"')


def test_a_row_shows_everything_and_is_judged_with_the_keyboard(
    lab_console: ConsolePage, lab: LabCaller, systems: tuple[str, str]
) -> None:
    console = lab_console
    console.go(f"/lab/experiments/{systems[0]}/rows?filter=score.exact%20%3D%200")
    counts_rows(console, "10 rows")
    rows = table(console, "Rows").get_by_role("row")
    rows.nth(1).get_by_role("link").click()
    console.page.get_by_role("heading", name="Row i-", level=1).wait_for()
    console.shows(f"good morning 0 {MARKUP}")
    nothing_was_run(console)
    difference = console.page.get_by_label("Difference", exact=True)
    expect(difference.locator("del").first).to_have_text("buenos")
    expect(difference.locator("ins").first).to_have_text("x")
    scores = table(console, "Scores")
    expect(scores).to_contain_text('expected "buenos días 0 amigos"')
    expect(table(console, "Attempts").get_by_role("row")).to_have_count(2)
    keyboard = console.page.keyboard
    for key in "p2f":
        keyboard.press(key)
    own = scores.get_by_role("row", name="exact · anyone")
    expect(own.get_by_role("cell", name="fail")).to_be_visible()
    expect(own.get_by_role("cell", name="2", exact=True)).to_be_visible()
    fails = console.page.get_by_role("button", name="Fail")
    expect(fails).to_have_attribute("aria-pressed", "true")
    keyboard.press("c")
    keyboard.type(f"bien {MARKUP}")
    console.page.get_by_role("button", name="Save").click()
    expect(scores).to_contain_text(f"bien {MARKUP}")
    first = console.page.url
    keyboard.press("j")
    expect(console.page).not_to_have_url(first)
    console.shows("good morning 3 ")
    keyboard.press("k")
    expect(console.page).to_have_url(first)
    (said,) = lab.get(f"/experiments/{systems[0]}/annotations")["items"]
    judged = (said["name"], said["label"], said["score"], said["correction"])
    assert judged == ("exact", "fail", 2, f"bien {MARKUP}")


def test_a_row_of_the_fleet_leads_to_its_job(
    lab_console: ConsolePage, lab_server: ServerProcess, lab: LabCaller
) -> None:
    console = lab_console
    src_lang, tgt_lang = pair = new_pair()
    version_id = lab.import_rows("for the fleet", [{"source": "hello"}])["version_id"]
    with ManualNode(lab_server, pair, node_id="n-lab") as node:
        target = {"kind": "fleet", "src_lang": src_lang, "tgt_lang": tgt_lang}
        experiment_id = lab.submit("on the fleet", version_id, target, evaluators=[])
        node.succeed(node.take(), text_translated="hola")
        lab.ended(experiment_id)
        console.go(f"/lab/experiments/{experiment_id}/rows")
        table(console, "Rows").get_by_role("row").nth(1).get_by_role("link").click()
        console.shows("hola")
        job_id = lab.post(f"/experiments/{experiment_id}/results", {})["items"][0]["output"][
            "job_id"
        ]
        console.page.get_by_role("link", name=job_id).click()
        console.heading(f"Job {job_id}")


def test_experiments_are_compared_with_the_biggest_losses_first(
    lab_console: ConsolePage, systems: tuple[str, str]
) -> None:
    console = lab_console
    console.go(f"/lab/experiments/{systems[0]}")
    console.page.get_by_role("link", name="Compare with this one").click()
    console.heading("Compare")
    console.shows("Choose a baseline")
    console.page.get_by_role("combobox", name="Compared with it").click()
    console.page.get_by_role("option", name="second system").click()
    figures = table(console, f"second system against first {MARKUP}")
    exact = figures.get_by_role("row").filter(has_text="exact")
    expect(exact).to_contain_text("+0.1333")
    expect(exact).to_contain_text("8 / 4 / 18")
    expect(exact).to_contain_text("unclear")
    expect(console.page.locator(".compared-row").first).to_contain_text("(-1)")
    expect(console.page.locator(".compared-row").first.locator("del").first).to_be_visible()
    expect(console.page.locator(".compared-row")).to_have_count(20)
    console.page.get_by_role("button", name="Show more").click()
    expect(console.page.locator(".compared-row")).to_have_count(30)
    parts = console.page.locator(".compared-row").get_by_role("heading", level=3)
    expect(parts).to_have_text(["The biggest losses", "Ties", "Wins"])
    console.page.get_by_label("By").select_option("chrf")
    expect(console.page).to_have_url(re.compile("by=chrf"))
    nothing_was_run(console)
    with console.page.expect_download() as download:
        console.page.get_by_role("button", name="Download the report").click()
    report = Path(download.value.path()).read_text(encoding="utf-8")
    assert report.startswith("# second system against first")
    assert download.value.suggested_filename == "comparison.md"


def test_a_dataset_is_uploaded_gets_a_version_and_shows_what_changed(
    lab_console: ConsolePage, lab: LabCaller
) -> None:
    console = lab_console
    console.go("/lab/datasets")
    console.heading("Datasets")
    rows = [{"said": f"{number} {MARKUP}"} for number in range(3)]
    chooser = console.page.locator("input[type=file]")
    file = {"name": "uploaded.jsonl", "mimeType": "application/x-ndjson", "buffer": jsonl(rows)}
    chooser.set_input_files(file)  # type: ignore[arg-type]
    expect(console.page.get_by_role("textbox", name="Name", exact=True)).to_have_value("uploaded")
    console.page.get_by_role("button", name="Upload").click()
    console.heading("uploaded")
    console.shows(f"2 {MARKUP}")
    nothing_was_run(console)
    changed = jsonl([*rows[1:], {"said": "new"}, {"said": "newer"}])
    chooser.set_input_files(file | {"buffer": changed})  # type: ignore[arg-type]
    console.page.get_by_role("button", name="Upload").click()
    console.shows("2 added, 1 removed, 2 as before")
    console.shows("Removed:")
    assert "version=2" in console.page.url
    console.page.get_by_label("Version", exact=True).select_option("1")
    console.shows(f"0 {MARKUP}")
    broken = file | {"buffer": b'{"said": \n'}
    chooser.set_input_files(broken)  # type: ignore[arg-type]
    console.page.get_by_role("button", name="Upload").click()
    expect(console.page.get_by_role("alert")).to_contain_text("1")
    console.complaints.clear()
    console.act("Delete", "Dataset uploaded and all its versions")
    console.heading("Datasets")
    expect(table(console, "Datasets").get_by_role("link", name="uploaded")).to_be_hidden()


def test_sounds_of_items_and_of_rows_are_played(lab_console: ConsolePage, lab: LabCaller) -> None:
    console = lab_console
    spoken = lab.import_file("spoken", "spoken.zip", spoken_archive(), audio="recording")
    experiment_id = lab.submit(
        "of sounds", spoken["version_id"], {"kind": "recorded", "output": "words"}, evaluators=[]
    )
    lab.ended(experiment_id)
    (row,) = lab.post(f"/experiments/{experiment_id}/results", {})["items"]
    for path in (
        f"/lab/datasets/{spoken['dataset_id']}",
        f"/lab/experiments/{experiment_id}/rows/{row['item_id']}",
    ):
        console.go(path)
        player = console.page.get_by_label("Sound of recording")
        player.wait_for()
        seconds = player.evaluate(
            "player => new Promise((resolve, reject) => {"
            "player.onloadedmetadata = () => resolve(player.duration);"
            "player.onerror = () => reject(player.error.message);"
            "player.load(); player.preload = 'metadata'; })"
        )
        assert seconds == pytest.approx(0.2, abs=0.01)


def test_a_new_experiment_is_described_step_by_step_tried_on_three_rows_and_started(
    lab_console: ConsolePage, sentences: dict[str, Any], lab: LabCaller
) -> None:
    console = lab_console
    page = console.page
    console.go("/lab/new")
    console.heading("New experiment")
    page.get_by_label("Name").fill("made in a browser")
    page.get_by_label("Dataset").select_option(sentences["version_id"])
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Kind of target").select_option("recorded")
    page.get_by_role("combobox", name="output").fill("second")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Kind of evaluator").select_option("exact")
    page.get_by_role("button", name="Add an evaluator").click()
    page.get_by_role("combobox", name="reference").fill("nowhere")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Try three rows").click()
    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    console.complaints.clear()
    page.get_by_role("button", name="Back").click()
    page.get_by_role("combobox", name="reference").fill("reference")
    page.get_by_role("combobox", name="name").fill("same")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Try three rows").click()
    console.shows("3 of 30 items were tried")
    expect(table(console, "Rows").get_by_role("row")).to_have_count(4)
    expect(table(console, "Rows")).to_contain_text("same 1")
    assert lab.get("/experiments", name="made in a browser")["items"] == []
    assert console.accessibility_violations() == []
    page.get_by_role("button", name="Start", exact=True).click()
    console.heading("made in a browser")
    console.shows("30 done, 0 failed")
    (found,) = lab.get("/experiments", name="made in a browser")["items"]
    assert found["status"] in ENDED
    assert found["evaluators"][0]["name"] == "same"
    assert EVALUATORS[0]["reference"] == found["evaluators"][0]["reference"]


def test_a_new_experiment_has_a_budget_and_runs_again_by_itself(
    lab_console: ConsolePage, sentences: dict[str, Any], lab: LabCaller
) -> None:
    console, page = lab_console, lab_console.page
    console.go("/lab/new")
    console.heading("New experiment")
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("Dataset").select_option(sentences["version_id"])
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Kind of target").select_option("recorded")
    page.get_by_role("combobox", name="output").fill("second")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Most tokens").fill("1000")
    page.get_by_label("Most cost").fill("0.5")
    page.get_by_label("Runs again (cron)").fill("every night")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("`0 3 * * *` is every day at 3:00")
    console.complaints.clear()  # the browser tells of each answer that is no success
    page.get_by_label("Runs again (cron)").fill("30 2 * * mon-fri")
    page.get_by_label("Time zone").fill("Europe/Vienna")
    assert console.accessibility_violations() == []
    page.get_by_role("button", name="Start", exact=True).click()
    console.heading("nightly")
    console.shows("30 2 * * mon-fri (Europe/Vienna)")
    console.shows("1,000 tokens, cost 0.5")
    console.shows("Next run")
    (found,) = lab.get("/experiments", name="nightly")["items"]
    assert found["budget"] == {"tokens": 1000, "cost": 0.5}


def test_the_quality_of_an_experiment_that_never_ends_is_shown_hour_by_hour(
    lab_console: ConsolePage, lab: LabCaller, lab_server: ServerProcess
) -> None:
    console = lab_console
    made = lab.post(
        "/experiments/submit",
        {
            "name": "watched",
            "target": {"kind": "recorded", "output": "said"},
            "evaluators": [{"kind": "regex", "pattern": "a"}],
        },
    )
    path = f"/experiments/{made['experiment_id']}"
    items = [{"turns": [{"said": said}]} for said in "aaabab"]
    lab.post(f"{path}/invoke", {"items": items})
    eventually(lambda: lab.get(path)["stats"]["success"] == len(items), "all are scored")
    console.go(f"/lab{path}")
    console.heading("watched")
    assert console.page.get_by_role("heading", name="Quality over time").count() == 0
    # No test waits for the clock: some of them were scored two hours ago.
    with closing(sqlite3.connect(lab_server.data_dir / "dragoman.db")) as database, database:
        database.execute(
            "UPDATE evaluator_record SET created_at_ms = created_at_ms - 7200000 WHERE run_id = ? "
            "AND item_id IN (SELECT item_id FROM turn_result WHERE run_id = ? LIMIT 3)",
            (made["run_id"], made["run_id"]),
        )
    console.page.reload()
    expect(
        console.page.get_by_role("img", name="regex: its mean and interval in each hour")
    ).to_be_visible()
    console.page.get_by_label("By", exact=True).select_option("run")
    console.shows("There is no second moment to compare with yet.")
    assert console.accessibility_violations() == []
    console.act("Finish", "watched")


def test_an_append_experiment_is_told_to_finish(lab_console: ConsolePage, lab: LabCaller) -> None:
    console = lab_console
    made = lab.post(
        "/experiments/submit",
        {
            "name": "online",
            "target": {"kind": "recorded", "output": "said"},
            "evaluators": [{"kind": "regex", "pattern": "a"}],
        },
    )
    path = f"/experiments/{made['experiment_id']}"
    console.go(f"/lab{path}")
    console.heading("online")
    expect(console.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    lab.post(f"{path}/invoke", {"items": [{"turns": [{"said": f"a {MARKUP}"}]}]})
    newest = table(console, "Rows as they are archived")
    expect(newest).to_contain_text(f"a {MARKUP}")
    nothing_was_run(console)
    console.act("Finish", "Experiment online takes no more items")
    expect(console.page.get_by_role("cell", name="Success").first).to_be_visible()
