"""Resumes of one session wait for each other."""

from __future__ import annotations

import asyncio

from dragoman.clock import SystemClock
from dragoman.ids import SessionId
from dragoman.live.sessions.turns import Turns
from dragoman.observability import Metrics, Watch


def test_visitors_of_one_session_take_turns_and_others_do_not_wait() -> None:
    async def main() -> None:
        watch = Watch(Metrics(), SystemClock(), path_warn_ms=1000, lock_wait_warn_ms=1000)
        turns = Turns(watch)
        seen: list[str] = []
        inside = 0

        async def visit(session_id: str, name: str) -> None:
            nonlocal inside
            async with turns.turn(SessionId(session_id)):
                if session_id == "a":
                    inside += 1
                    assert inside == 1, "two at a time"
                seen.append(name)
                for _ in range(3):
                    await asyncio.sleep(0)
                if session_id == "a":
                    inside -= 1

        first = [asyncio.create_task(visit("a", f"a{number}")) for number in range(3)]
        await asyncio.sleep(0)
        other = asyncio.create_task(visit("b", "b"))
        first[1].cancel()
        for _ in range(2):
            await asyncio.sleep(0)
        late = asyncio.create_task(visit("a", "late"))
        await asyncio.gather(*first, other, late, return_exceptions=True)
        assert seen == ["a0", "b", "a2", "late"]
        assert len(turns) == 0

    asyncio.run(main())
