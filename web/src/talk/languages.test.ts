import { expect, test } from "vitest";

import { isLanguage } from "./languages";

test("a tag is a language, and what is being typed is none yet", () => {
  expect(["en", "zh-TW", "sr-Latn-RS", "ZH-hant"].filter((tag) => !isLanguage(tag))).toEqual([]);
  const others = ["", "e", "en-", "en ", "e1", "auto", "english language", "a".repeat(36)];
  expect(others.filter(isLanguage)).toEqual([]);
});
