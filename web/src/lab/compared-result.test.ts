import { expect, test } from "vitest";

import { resultOf } from "./compared-result";

const row = (...gains: (number | null)[]) => ({ others: gains.map((gain) => ({ gain })) });

test("a row is a loss, a tie or a win by the run that fared worst", () => {
  expect(resultOf(row(-0.5, 1))).toBe("loss");
  expect(resultOf(row(0, 1))).toBe("tie");
  expect(resultOf(row(0.1, 1))).toBe("win");
});

test("a row that no run has a score for cannot be compared", () => {
  expect(resultOf(row(null))).toBe("unknown");
  expect(resultOf({ others: [null] })).toBe("unknown");
  expect(resultOf(undefined)).toBeNull();
});
