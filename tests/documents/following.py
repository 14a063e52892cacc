"""Following a page to the letter: files are written, commands are typed, answers are compared."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.documents.blocks import Block
from tests.documents.sandbox import CommandFailed, Sandbox


@dataclass(frozen=True)
class Program:
    """A command that does not end by itself, and what it prints when it is ready."""

    name: str
    beginning: str
    ready: str


_VARIABLES = r"(?:[A-Z_]+=\S+ )*"
PROGRAMS = (
    Program("server", rf"{_VARIABLES}(make|(\S*/)?dragoman) (demo|serve)\b", r"https?://\S+"),
    Program("node", rf"{_VARIABLES}((\S*/)?dragoman node|python \S*node\S*\.py)\b", r"\bready\b"),
    Program("redis", r"redis-server\b", r"Ready to accept connections"),
)


def follow(blocks: list[Block], sandbox: Sandbox) -> None:
    """Do what each block says, in order; a block that cannot be followed raises."""
    printed = ""
    for block in blocks:
        try:
            if block.title is not None:
                _write(block, sandbox)
            elif block.language == "text":
                _compare(block, printed)
            else:
                printed = _carry_out(block, sandbox)
        except CommandFailed as failed:
            raise CommandFailed(f"{block.place}: {failed}") from None


def _write(block: Block, sandbox: Sandbox) -> None:
    assert block.title is not None
    path = sandbox.folder / block.title
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text + "\n")


def _carry_out(block: Block, sandbox: Sandbox) -> str:
    match block.language:
        case "sh":
            return "\n".join(_type(command, sandbox) for command in commands_of(block.text))
        case "python":
            (sandbox.folder / "block.py").write_text(block.text + "\n")
            return sandbox.run("python block.py")
        case "toml":
            tomllib.loads(block.text)
            (sandbox.folder / "block.toml").write_text(block.text + "\n")
            return sandbox.run("dragoman config check block.toml")
        case "json":
            for line in block.text.splitlines():
                json.loads(line)
            return ""
    raise CommandFailed(f"nothing is known about blocks of {block.language or 'no language'}")


def _type(command: str, sandbox: Sandbox) -> str:
    for program in PROGRAMS:
        if re.match(program.beginning, command) and "--help" not in command:
            # Two servers run side by side when each is given a port; else one follows the other.
            port = re.search(r"--port (\d+)", command)
            name = f"{program.name} {port[1]}" if port else program.name
            for other in sandbox.running:
                if other in (name, program.name) or (not port and other.startswith(program.name)):
                    sandbox.stop(other)
            return sandbox.start(name, command, program.ready)
    return sandbox.run(command)


def commands_of(text: str) -> Iterator[str]:
    """The commands of a shell block: one a line; a backslash, a quote or a heredoc goes on."""
    gathered = ""
    for line in text.splitlines():
        gathered = f"{gathered}\n{line}" if gathered else line
        if _is_complete(gathered):
            if not re.fullmatch(r"\s*(#.*)?", gathered):
                yield gathered
            gathered = ""
    if gathered:
        raise CommandFailed(f"a command does not end: {gathered}")


def _is_complete(command: str) -> bool:
    heredoc = re.search(r"<<'?(\w+)'?", command)
    if heredoc:
        return re.search(rf"^{heredoc[1]}$", command, re.MULTILINE) is not None
    if command.endswith("\\"):
        return False
    without_comment = re.sub(r"(^|\s)#.*$", "", command, flags=re.MULTILINE)
    return all(without_comment.count(quote) % 2 == 0 for quote in "'\"")


def _compare(block: Block, printed: str) -> None:
    """The page shows what the command before printed; `...` stands for what differs each time."""
    pattern = ""
    for line in block.text.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            words = r"\s+".join(re.escape(word) for word in line.split())
            pattern += r"\s*" + words.replace(re.escape("..."), ".*?") + r"\s*\n"
    if not re.search(pattern, printed + "\n"):
        raise CommandFailed(f"the page shows\n{block.text}\nand the command printed\n{printed}")
