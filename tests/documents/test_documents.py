"""Every page is followed to the letter, on a machine with an empty home and no caches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import markdown  # type: ignore[import-untyped]
import pytest
from pymdownx.superfences import fence_code_format  # type: ignore[import-untyped]
from tests.documents.blocks import ROOT, Block, blocks_of, pages
from tests.documents.following import commands_of, follow
from tests.documents.sandbox import Sandbox, namespaces_are_allowed

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BARE_PATH = f"{Path(sys.executable).resolve().parent}:{SYSTEM_PATH}"
"""A Python that is new enough, and nothing that was installed for it here."""

YOUR_POSTGRESQL = (
    "needs a PostgreSQL server of yours; tests/integration/store upgrades and reads a real one"
)
YOUR_MARIADB = (
    "needs a MariaDB server of yours; tests/integration/store upgrades and reads a real one"
)
YOUR_SERVERS = (
    "needs servers of yours; tests/integration/lab_api/test_several_instances.py uses real ones"
)
NOT_FOLLOWED: dict[tuple[str, str], str] = {
    ("CONTRIBUTING.md", ".ci/run"): "runs the linters and all tests, this one among them",
    ("docs/howto/database.md", "createuser --pwprompt dragoman"): YOUR_POSTGRESQL,
    ("docs/howto/database.md", "pg_dump --format=custom --file=dragoman.dump dragoman"): (
        YOUR_POSTGRESQL
    ),
    ("docs/howto/database.md", "CREATE DATABASE dragoman;"): YOUR_MARIADB,
    (
        "docs/howto/database.md",
        "mariadb-dump --single-transaction --triggers dragoman > dragoman.sql",
    ): YOUR_MARIADB,
    (
        "docs/howto/deploy-a-cluster.md",
        "export POSTGRES_PASSWORD=choose-one REDIS_PASSWORD=choose-another",
    ): ("needs Docker; a test checks the compose file's settings and commands"),
    (
        "docs/howto/deploy.md",
        "docker build --file deploy/Dockerfile --tag dragoman .",
    ): ("needs Docker; tests/integration/serve/test_image.py checks what can be had without it"),
    (
        "docs/howto/deploy.md",
        "docker compose --file deploy/laptop/compose.yaml up --build",
    ): ("needs Docker; tests/unit/deploy checks the compose file's settings and commands"),
    (
        "docs/howto/deploy.md",
        "helm install talk deploy/helm/dragoman --namespace speech --create-namespace"
        " --set image.repository=registry.example/dragoman",
    ): ("needs Kubernetes; tests/unit/deploy/test_helm.py renders and validates the chart"),
    (
        "docs/howto/deploy.md",
        "KEY=$(kubectl --namespace speech exec talk-dragoman-0 --"
        " dragoman keys create --role node | tail -n 1)",
    ): ("needs Kubernetes; tests/unit/deploy/test_helm.py renders and validates the chart"),
    ("docs/howto/deploy-a-cluster.md", "useradd --system dragoman"): (
        "changes the users and services of the machine; a test checks the unit files"
    ),
    ("docs/howto/engines.md", "apt install apertium apertium-eng-spa espeak-ng"): (
        "installs Debian packages; tests/integration/engines runs the engines for real"
    ),
    (
        "docs/howto/lab-on-many-machines.md",
        "dragoman worker --config dragoman.toml --concurrency 32",
    ): YOUR_SERVERS,
    (
        "docs/howto/lab-on-many-machines.md",
        "dragoman lab workers --url http://127.0.0.1:8080",
    ): YOUR_SERVERS,
    (
        "docs/howto/lab-on-many-machines.md",
        "dragoman worker --config dragoman.toml --metrics-port 8081",
    ): YOUR_SERVERS,
    (
        "docs/howto/lab-on-many-machines.md",
        "dragoman lab pace EXPERIMENT_ID --calls-at-once 20 --url http://127.0.0.1:8080",
    ): YOUR_SERVERS,
    ("docs/howto/operate.md", "prometheus --config.file=deploy/prometheus/prometheus.yml"): (
        "needs Prometheus; tests/integration/sight checks the rules and the dashboard"
    ),
    ("docs/howto/upgrade.md", "git pull"): (
        "would replace the program under test; the test of install.md installs from a folder"
    ),
}
"""Blocks that no test follows: the page, the block's first line, and the reason."""

IN_A_CHECKOUT = ("README.md", "docs/quickstart.md")
"""Pages whose reader stands in a fresh checkout with nothing installed."""

FROM_THE_REGISTRY = ("docs/howto/install.md",)
"""Pages whose reader installs packages, and so needs the network of the machine."""


PATH_OF_A_STRANGER = (
    "docs/index.md",
    "docs/tutorials/first-node.md",
    "docs/tutorials/first-conversation.md",
    "docs/tutorials/first-experiment.md",
)
"""Pages that are followed one after the other in one terminal, from a fresh checkout on."""

DIAGRAM = "mermaid"
TRANSLATIONS = "docs/zh/"
"""Their blocks are those of the English pages; test_translations.py compares them."""


def followed(page: str) -> list[Block]:
    return [
        block
        for block in blocks_of(page)
        if (page, block.first_line) not in NOT_FOLLOWED and block.language != DIAGRAM
    ]


PAGES = [
    page
    for page in pages()
    if followed(page) and page not in PATH_OF_A_STRANGER and not page.startswith(TRANSLATIONS)
]


@pytest.fixture(scope="session", autouse=True)
def network_of_its_own() -> None:
    if namespaces_are_allowed():
        return
    message = "this machine does not let a process have a network namespace of its own"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone, set up for the demo alone with an empty home.

    Setting up needs the package registries, so it happens before the page's network is closed.
    """
    folder = tmp_path_factory.mktemp("checkout") / "dragoman"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True, capture_output=True)
    hand_out(folder)  # what is not committed yet
    home = folder.parent / "home"
    home.mkdir()
    ready = subprocess.run(
        [".ci/setup", "demo"],
        cwd=folder,
        env={**registry_settings(), "HOME": str(home), "PATH": BARE_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ready.returncode == 0, ready.stdout + ready.stderr
    return folder


def hand_out(folder: Path) -> None:
    """Copy the files that a fresh clone would have."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def registry_settings() -> dict[str, str]:
    """How this machine reaches its package registry; nothing else of the environment."""
    beginnings = (
        "PIP_",
        "NPM_",
        "NODE_",
        "SSL_",
        "REQUESTS_",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    )
    return {key: value for key, value in os.environ.items() if key.upper().startswith(beginnings)}


@pytest.fixture
def sandbox(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A terminal where the reader of this page would have one."""
    home = tmp_path / "home"
    home.mkdir()
    folder = tmp_path / "work"
    path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
    if page in IN_A_CHECKOUT:
        folder, path = request.getfixturevalue("checkout"), SYSTEM_PATH
    elif page in FROM_THE_REGISTRY:
        hand_out(folder)
        path = BARE_PATH
    elif page.startswith("examples/"):
        shutil.copytree(ROOT / "examples", folder)
    else:
        folder.mkdir()
        shutil.copytree(ROOT / "deploy", folder / "deploy")
    opened = Sandbox(
        folder,
        home=home,
        path=path,
        env=registry_settings(),
        own_network=page not in FROM_THE_REGISTRY,
    )
    yield opened
    opened.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in IN_A_CHECKOUT])
def test_a_reader_who_follows_the_page_to_the_letter_arrives(page: str, sandbox: Sandbox) -> None:
    follow(followed(page), sandbox)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", IN_A_CHECKOUT)
def test_a_reader_in_a_fresh_checkout_arrives(page: str, sandbox: Sandbox) -> None:
    follow(followed(page), sandbox)


@pytest.mark.timeout(900)
def test_a_stranger_gets_from_the_landing_page_to_a_node_and_an_experiment(
    checkout: Path, tmp_path: Path
) -> None:
    """Every command of the path is typed as it stands; each page must lead to the next."""
    changed_before = _changed(checkout)
    home = tmp_path / "home"
    home.mkdir()
    sandbox = Sandbox(checkout, home=home, path=SYSTEM_PATH, env=registry_settings())
    try:
        for page, next_page in zip(
            PATH_OF_A_STRANGER, (*PATH_OF_A_STRANGER[1:], None), strict=True
        ):
            follow(followed(page), sandbox)
            if next_page is not None:
                assert f"({links(page, next_page)})" in (ROOT / page).read_text()
    finally:
        sandbox.close()
    # What the stranger was told to write is all that git sees: no caches, no builds, no data but
    # in the folders that the pages name for it.
    blocks = [block for page in PATH_OF_A_STRANGER for block in followed(page)]
    folders = re.findall(r"--data-dir (\S+)", "\n".join(block.text for block in blocks))
    left = _changed(checkout) - changed_before - {block.title for block in blocks}
    assert not [name for name in left if not name.startswith(tuple(f"{one}/" for one in folders))]


def links(page: str, other: str) -> str:
    """How a page names another one in a link."""
    return os.path.relpath(ROOT / other, (ROOT / page).parent)


def _changed(folder: Path) -> set[str]:
    """What git says is new or changed there."""
    told = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "-z"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return {entry[3:] for entry in told.stdout.split("\0") if entry}


@pytest.mark.parametrize("page", pages())
def test_every_block_of_a_page_is_fenced_and_says_what_it_is_written_in(page: str) -> None:
    html = markdown.markdown(
        without_front_matter((ROOT / page).read_text()),
        extensions=["tables", "pymdownx.superfences", "pymdownx.highlight"],
        extension_configs={
            "pymdownx.highlight": {"pygments_lang_class": True},
            "pymdownx.superfences": {
                "custom_fences": [{"name": DIAGRAM, "class": DIAGRAM, "format": fence_code_format}]
            },
        },
    )
    unnamed = re.findall(r'<div class="highlight">.*?</div>', html, re.DOTALL)
    assert not unnamed, f"{page}: neither fenced nor named: {unnamed[0][:200]}"
    named = re.findall(r'<div class="language-([\w-]+) highlight">', html)
    languages = [block.language for block in blocks_of(page)]
    assert named == [language for language in languages if language != DIAGRAM]


def without_front_matter(text: str) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)


def test_what_is_not_followed_is_on_its_page_and_has_a_reason() -> None:
    known = {(page, block.first_line) for page in pages() for block in blocks_of(page)}
    assert set(NOT_FOLLOWED) <= known
    assert all(len(reason) > 15 for reason in NOT_FOLLOWED.values())


def test_a_command_ends_where_the_reader_presses_return() -> None:
    text = "one  # don't\ntwo \\\n  more\nthree 'a\nb'\ncat <<END\nx 'y\nEND\n# nothing\n"
    assert list(commands_of(text)) == [
        "one  # don't",
        "two \\\n  more",
        "three 'a\nb'",
        "cat <<END\nx 'y\nEND",
    ]
