import { expect, test } from "vitest";

import runbook from "../../../docs/howto/runbook.md?raw";
import { piecesOf, runbookEntries } from "./runbook";

test("an entry of the runbook has its paragraphs, items, code and bold", () => {
  const entries = runbookEntries(
    "# Title\n\n## Part\n\n### First\n**Page.** Said\nso.\n\n- **Look:** `GET /x`\n  more\n- do\n\n### Second\nOther\n\n## Next part\nText\n",
  );
  expect([...entries.keys()]).toEqual(["First", "Second"]);
  const shown = entries.get("First")?.map(({ isItem, pieces }) => [
    isItem,
    pieces.map(({ text }) => text).join(""),
  ]);
  expect(shown).toEqual([
    [false, "Page. Said so."],
    [true, "Look: GET /x more"],
    [true, "do"],
  ]);
  expect(entries.get("Second")).toHaveLength(1);
});

test("links are shown by their text", () => {
  expect(piecesOf("see [the page](a.md#b) now")).toEqual([
    { kind: "plain", text: "see the page now" },
  ]);
});

test("the runbook itself can be read", () => {
  const entries = runbookEntries(runbook);
  expect(entries.size).toBeGreaterThan(20);
  for (const blocks of entries.values()) expect(blocks.length).toBeGreaterThan(1);
});
