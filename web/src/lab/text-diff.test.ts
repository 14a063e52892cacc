import { expect, test } from "vitest";

import { textDiff } from "./text-diff";

test("words that differ are removed and added, the others stay", () => {
  expect(textDiff("the cat sat", "the dog sat")).toEqual([
    ["same", "the "],
    ["removed", "cat"],
    ["added", "dog"],
    ["same", " sat"],
  ]);
});

test("both texts can be put together from the pieces", () => {
  const [before, after] = ["one, two three", "two four three!"];
  const pieces = textDiff(before, after) ?? [];
  const joined = (left: string) =>
    pieces.map(([kind, text]) => (kind === "same" || kind === left ? text : "")).join("");
  expect(joined("removed")).toBe(before);
  expect(joined("added")).toBe(after);
});

test("texts without spaces are compared by their characters", () => {
  expect(textDiff("你好吗", "你们好")?.filter(([kind]) => kind === "same")).toEqual([
    ["same", "你"],
    ["same", "好"],
  ]);
});

test("nothing has no pieces, and too much is not compared", () => {
  expect(textDiff("", "")).toEqual([]);
  expect(textDiff("a ".repeat(2_000), "b")).toBeNull();
});
