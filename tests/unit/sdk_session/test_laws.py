"""Whatever happens to the connection, utterances end once, in order, and with all their audio."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.unit.sdk_session.scene import Scene, play

from dragoman.live.gateway import uniform
from dragoman.live.protocol import TranslationResult
from dragoman.sdk import Missing, Result

SEEDS = st.integers(0, 2**32)
DELAY = uniform(0.001, 0.2)


async def break_links(scene: Scene, random: Random, times: int) -> None:
    """Cut the client's connection now and then, sometimes so that an end does not notice."""
    for _ in range(times):
        await asyncio.sleep(random.expovariate(0.7))
        if not scene.clients.links:
            continue
        scene.link.cut(
            client_notices_after=random.choice([0.0, 0.3, None]),
            server_notices_after=random.choice([0.0, 0.5, 5.0]),
        )


def checked(results: list[Result], targets: int) -> list[TranslationResult]:
    missing = [result for result in results if isinstance(result, Missing)]
    assert missing == []
    translations = [result for result in results if isinstance(result, TranslationResult)]
    by_target: dict[str, list[int]] = {}
    for result in translations:
        by_target.setdefault(result.tgt_lang, []).append(result.utterance_index)
    assert len(by_target) == targets
    for indexes in by_target.values():
        assert indexes == list(range(len(indexes)))
    return translations


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_texts_end_once_and_in_order_however_often_the_connection_breaks(seed: int) -> None:
    note(f"seed {seed}")

    async def script(scene: Scene) -> None:
        random = Random(seed)
        scene.work_seconds = lambda draw: draw.expovariate(1.0)
        async with scene.client(tgt_langs=["es", "fr"], reconnect_seconds=1000) as session:
            breaking = asyncio.create_task(break_links(scene, random, 6))
            for number in range(15):
                await asyncio.sleep(random.expovariate(2.0))
                await session.say(f"word {number}")
            await session.close()
            results = [result async for result in session.results()]
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)
        translations = checked(results, targets=2)
        assert len(translations) == 30
        for result in translations:
            assert result.text_translated == f"WORD {result.utterance_index}"

    play(script, seed=seed, delay=DELAY)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_no_byte_of_audio_is_lost_or_doubled_however_often_the_connection_breaks(
    seed: int,
) -> None:
    note(f"seed {seed}")

    async def script(scene: Scene) -> None:
        random = Random(seed)
        scene.work_seconds = lambda draw: draw.expovariate(1.0)
        spoken = b""
        async with scene.client(reconnect_seconds=1000) as session:
            breaking = asyncio.create_task(break_links(scene, random, 6))
            for _ in range(60):
                await asyncio.sleep(random.choice([0.1, 0.1, 0.1, 1.5]))
                piece = random.randbytes(2 * random.randrange(1, 3200))
                spoken += piece
                await session.feed(piece, final=random.random() < 0.1)
            await breaking
            await session.feed(b"", final=True)
            await asyncio.sleep(60)  # the last break is noticed and mended
            await session.close()
            results = [result async for result in session.results()]
        translations = checked(results, targets=1)
        assert b"".join(result.tts_audio or b"" for result in translations) == spoken

    play(script, seed=seed, delay=DELAY)


@pytest.mark.parametrize("sub_seed", range(3))
def test_the_same_seed_tells_the_same_story(sub_seed: int) -> None:
    def story() -> list[str]:
        async def script(scene: Scene) -> None:
            async with scene.client() as session:
                breaking = asyncio.create_task(break_links(scene, Random(sub_seed), 3))
                for number in range(5):
                    await asyncio.sleep(0.5)
                    await session.say(f"word {number}")
                await session.close()
                await breaking

        return [repr(event) for event in play(script, seed=sub_seed, delay=DELAY).events]

    assert story() == story()
