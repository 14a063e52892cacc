import { expect, test } from "vitest";

import { doneAt, rateOf, type Done } from "./run-rate";

const stats = (success: number) => ({
  success,
  fail: 0,
  terminated: 0,
  queueing: 9,
  processing: 1,
  tokens: 0,
  cost: 0,
});

test("the rate is that of the last half minute", () => {
  let done: readonly Done[] = [];
  done = doneAt(done, stats(0), 0);
  expect(rateOf(done)).toBeNull();
  done = doneAt(done, stats(1000), 10_000);
  expect(rateOf(done)).toBe(100);
  done = doneAt(done, stats(1010), 40_000);
  expect(rateOf(done)).toBeCloseTo(1 / 3);
});
