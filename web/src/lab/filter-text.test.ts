import { expect, test } from "vitest";

import { filterProblem, filterText, partsOf, readFilter, textOfParts } from "./filter-text";

const SAME: readonly string[] = [
  "score.chrf < 30",
  'status = "success" and latency_ms >= 1.5',
  'error_code is null or not (text contains "a \\"b\\"" and `score.has it` not null)',
  'item_id in ("i-1", "i-2") and input.n not in (1, 2)',
  'output.output matches "^a.*" and not label.judge not contains "x"',
];

test.each(SAME)("what is read and written again is the same: %s", (text) => {
  const tree = readFilter(text);
  expect(tree).not.toBeNull();
  if (tree !== null) expect(filterText(tree)).toBe(text);
});

test("and binds closer than or", () => {
  expect(readFilter("a = 1 or b = 2 and c = 3")).toEqual({
    or: [
      { field: "a", op: "=", value: 1 },
      {
        and: [
          { field: "b", op: "=", value: 2 },
          { field: "c", op: "=", value: 3 },
        ],
      },
    ],
  });
});

test("a word without quotes is text, true and false are what they are", () => {
  expect(readFilter("status = fail and input.ok = true")).toEqual({
    and: [
      { field: "status", op: "=", value: "fail" },
      { field: "input.ok", op: "=", value: true },
    ],
  });
});

test("a tree in JSON is taken as it is", () => {
  expect(readFilter(' {"not": {"field": "cost", "op": "is_null"}}')).toEqual({
    not: { field: "cost", op: "is_null" },
  });
});

test("an empty filter is none", () => {
  expect(readFilter("  ")).toBeNull();
  expect(textOfParts([])).toBe("");
});

test.each(["status =", "status", "= 3", "a = 1 b", "(a = 1", "a in 1", "a ~ 1", "{", 'a = "x'])(
  "what cannot be read is refused: %s",
  (text) => {
    expect(filterProblem(text)).not.toBeNull();
  },
);

test("conditions that all hold are parts, and parts make a filter again", () => {
  const parts = partsOf(readFilter("a = 1 and (b = 2 or c = 3)"));
  expect(parts.map(filterText)).toEqual(["a = 1", "b = 2 or c = 3"]);
  expect(textOfParts(parts)).toBe("a = 1 and (b = 2 or c = 3)");
  expect(textOfParts(parts.slice(0, 1))).toBe("a = 1");
});
