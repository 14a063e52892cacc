import { expect, test } from "vitest";

import { formatsOf, localeOf } from "./formats";

test("times follow the clock of 24 hours, in both languages", () => {
  const at = new Date(2026, 10, 19, 15, 4, 5).toISOString();
  for (const locale of ["en", "en-US", "en-GB", "zh"]) {
    expect(formatsOf(locale).time(at)).toContain("15:04:05");
  }
});

test("the reader's region decides how the language is written, not the language alone", () => {
  expect(localeOf("en", ["zh-CN", "en-GB", "en-US"])).toBe("en-GB");
  expect(localeOf("zh", ["en-GB"])).toBe("zh");
});
