"""A process of its own that writes notes and prints the name of each one that was acknowledged.

Usage: writing_child DATABASE_URL PREFIX SUBMITTERS NOTES_EACH
"""

from __future__ import annotations

import asyncio
import os
import sys

from tests.integration.store.notes import make_table, write_note

from dragoman.store import open_store, upgrade


async def main(database_url: str, prefix: str, submitters: int, notes_each: int) -> None:
    upgrade(database_url)
    async with await open_store(database_url) as store:
        await make_table(store)

        async def submit(submitter: int) -> None:
            for number in range(notes_each):
                name = await store.write(write_note(f"{prefix}-{submitter}-{number}"))
                os.write(sys.stdout.fileno(), f"{name}\n".encode())

        async with asyncio.TaskGroup() as group:
            for submitter in range(submitters):
                group.create_task(submit(submitter))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
