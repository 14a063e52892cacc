import { expect, test } from "vitest";

import { conditionOf, kindsIn } from "./condition-value";

const KINDS = kindsIn([
  { input: { code: "00", length: 3, mixed: 1, ok: true, none: null }, output: { output: "1" } },
  { input: { code: "12", length: 4, mixed: "1" }, output: {} },
]);

test("digits are text where the column holds texts, and numbers where it holds numbers", () => {
  expect(conditionOf("input.code", "=", "12", KINDS).value).toBe("12");
  expect(conditionOf("input.mixed", "=", "12", KINDS).value).toBe("12");
  expect(conditionOf("output.output", "=", "1", KINDS).value).toBe("1");
  expect(conditionOf("input.length", ">", "12", KINDS).value).toBe(12);
  expect(conditionOf("input.ok", "=", "true", KINDS).value).toBe(true);
});

test("a number is one where nothing is known of the column", () => {
  expect(conditionOf("input.none", "=", "12", KINDS).value).toBe(12);
  expect(conditionOf("score.exact", "<", "0.5", KINDS).value).toBe(0.5);
  expect(conditionOf("input.none", "=", "twelve", KINDS).value).toBe("twelve");
});

test("what stands in quotes is text, without them", () => {
  expect(conditionOf("input.none", "=", '"12"', KINDS).value).toBe("12");
  expect(conditionOf("input.code", "=", '"a \\"b\\""', KINDS).value).toBe('a "b"');
  expect(conditionOf("input.code", "=", '"unclosed', KINDS).value).toBe('"unclosed');
});

test("a search is for text, and fields of the row itself are text", () => {
  expect(conditionOf("input.length", "contains", "1", KINDS).value).toBe("1");
  expect(conditionOf("item_id", "=", "7", KINDS).value).toBe("7");
  expect(conditionOf("label.judge", "=", "1", KINDS).value).toBe("1");
});

test("a list is split at its commas, but not inside quotes", () => {
  expect(conditionOf("input.code", "in", "01, 02", KINDS).value).toEqual(["01", "02"]);
  expect(conditionOf("input.length", "not_in", "1,2", KINDS).value).toEqual([1, 2]);
  expect(conditionOf("input.none", "in", '"a, b", c', KINDS).value).toEqual(["a, b", "c"]);
});

test("a condition that takes no value has none", () => {
  expect(conditionOf("input.code", "is_null", "x", KINDS)).toEqual({
    field: "input.code",
    op: "is_null",
  });
});
