"""Targets and evaluators whose calls can be counted, also across processes that are killed."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from dragoman.lab.failures import EvaluatorFailure, TargetError


def note(calls: str, line: str) -> None:
    """Write a line that survives whatever happens to this process next."""
    handle = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def noted(calls: str) -> list[str]:
    """The lines written so far."""
    try:
        with open(calls) as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def touch(path: str) -> None:
    """Make a file that others wait for."""
    with open(path, "w"):
        pass


def exists(path: str) -> bool:
    return os.path.exists(path)


async def answer(
    key: str, turn: int, calls: str, delay_ms: float, fate: str, history: list[Any]
) -> str:
    """The same answer for the same turn, whenever and wherever it is called."""
    note(calls, f"{key}/{turn}")
    await asyncio.sleep(delay_ms / 1000)
    if fate == "target_fails":
        raise TargetError(f"{key} never works", retryable=False)
    return f"{key}:{'+'.join(str(past.output.answer) for past in history)}:{turn}"


async def hang(key: str, calls: str) -> str:
    """Never answers."""
    note(calls, key)
    await asyncio.sleep(3600)
    return key


def judge(output: str, fate: str) -> float:
    """How long the answer is; some answers it cannot judge."""
    if fate == "evaluator_fails":
        raise EvaluatorFailure("cannot judge this", retryable=False)
    return float(len(output))


def judge_noting(output: str, key: str, calls: str) -> float:
    """Judges, and writes it down."""
    note(calls, f"judge/{key}")
    return 1.0


def judge_unless_broken(output: str, key: str, calls: str, fixed: str) -> float:
    """Judges only once a file exists."""
    note(calls, f"broken/{key}")
    if not os.path.exists(fixed):
        raise EvaluatorFailure("not yet", retryable=False)
    return 1.0


async def answer_unless_held(key: str, calls: str) -> str:
    """Answers at once."""
    note(calls, key)
    return key


async def answer_when_released(key: str, calls: str) -> str:
    """Answers once a file exists; until then its worker can do nothing else, nor renew leases."""
    note(calls, key)
    while not exists(f"{calls}.released"):
        time.sleep(0.01)  # noqa: ASYNC251 - so that its answer comes before any other news
    return key


async def answer_once_released(key: str, calls: str) -> str:
    """Answers once a file exists; its worker does other things meanwhile."""
    note(calls, key)
    while not exists(f"{calls}.released"):  # noqa: ASYNC110 - it is a file
        await asyncio.sleep(0.01)
    return key


async def judge_unless_held(output: str, key: str, calls: str, hold: bool) -> float:
    """Judges; what is held it judges only once a file exists."""
    note(calls, f"judge/{key}")
    while hold and not exists(f"{calls}.released"):  # noqa: ASYNC110 - it is a file
        await asyncio.sleep(0.01)
    return 1.0


def answer_anything() -> str:
    """Needs no column."""
    return "yes"


def judge_again(output: str, key: str, calls: str) -> float:
    """Judges otherwise than `judge`, and writes it down."""
    note(calls, f"again/{key}")
    return 2.0 * len(output)


async def judge_slowly(output: str, key: str, calls: str) -> float:
    """Takes its time, so that it can be stopped midway."""
    await asyncio.sleep(0.02)
    note(calls, f"slow/{key}")
    return 3.0 * len(output)
