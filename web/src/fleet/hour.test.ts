import { expect, test } from "vitest";

import { hourSum, minuteTimes, type MinuteSeries } from "./hour";

const nothing = (value: number) => Array.from({ length: 58 }, () => value);

test("an hour is summed over its minutes, and its mean weighs them by their jobs", () => {
  const series: MinuteSeries = {
    jobs: [...nothing(0), 1, 3],
    failed: [...nothing(0), 0, 2],
    refused: [...nothing(0), 1, 0],
    mean_ms: [...nothing(0).map(() => null), 10, 30],
    longest_ms: [...nothing(0), 10, 50],
  };
  expect(hourSum(series)).toEqual({ jobs: 4, failed: 2, refused: 1, meanMs: 25 });
});

test("minutes begin one after another", () => {
  const times = minuteTimes("1970-01-01T00:01:00.000Z");
  expect(times.slice(0, 2)).toEqual([60, 120]);
  expect(times).toHaveLength(60);
});
