import { expect, test } from "vitest";

import { timeTicks } from "./chart-axis";

const NOON = Date.UTC(2026, 10, 19, 12) / 1000;
const HOUR = 3600;

test("ticks are told by a clock of 24 hours in every language", () => {
  for (const locale of ["en", "en-GB", "zh"]) {
    const at = timeTicks(locale, "UTC");
    expect(at([NOON, NOON + HOUR, NOON + 2 * HOUR])).toEqual(["12:00", "13:00", "14:00"]);
    expect(at([NOON, NOON + 10])).toEqual(["12:00:00", "12:00:10"]);
  }
});

test("another day is named in the reader's language", () => {
  const times = [NOON + 6 * HOUR, NOON + 12 * HOUR];
  expect(timeTicks("zh", "UTC")(times)).toEqual(["18:00", "00:00\n11月20日"]);
  expect(timeTicks("en-GB", "UTC")(times)).toEqual(["18:00", "00:00\n20 Nov"]);
});
