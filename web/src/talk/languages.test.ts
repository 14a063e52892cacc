import { expect, test } from "vitest";

import { isLanguage, languageName, languageTitle, suggestedFor, tagOf } from "./languages";

test("a tag is a language, and what is being typed is none yet", () => {
  expect(["en", "zh-TW", "sr-Latn-RS", "ZH-hant"].filter((tag) => !isLanguage(tag))).toEqual([]);
  const others = ["", "e", "en-", "en ", "e1", "auto", "english language", "a".repeat(36)];
  expect(others.filter(isLanguage)).toEqual([]);
});

test("a language is called as its reader calls it, and one without a name by its tag", () => {
  expect(languageTitle("es", "en")).toBe("Spanish (es)");
  expect(languageName("es", "zh")).toBe("西班牙语");
  expect(languageTitle("t9", "en")).toBe("t9");
  // Tags that the protocol takes and that the browser does not know are shown as they are.
  expect(languageTitle("en-t1", "en")).toContain("en-t1");
  expect(languageTitle("x-x-x", "en")).toBe("x-x-x");
});

test("suggestions are found by tag and by name, and a name that was typed is its tag", () => {
  const known = ["en", "es", "et", "fr"];
  expect(suggestedFor("e", known, "en")).toEqual(["en", "es", "et", "fr"]);
  expect(suggestedFor("es", known, "en")).toEqual(["es", "et"]);
  expect(suggestedFor("Span", known, "en")).toEqual(["es"]);
  expect(suggestedFor("", known, "en")).toEqual(known);
  expect(tagOf("spanish", known, "en")).toBe("es");
  expect(tagOf(" tlh ", known, "en")).toBe("tlh");
  expect(tagOf(" ", known, "en")).toBe("");
});
