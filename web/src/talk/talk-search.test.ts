import { expect, test } from "vitest";

import { languagesOf, searchOfLanguages, talkSearchOf } from "./talk-search";

test("the languages of a conversation are read from the address that was written for them", () => {
  const languages = { from: "zh-TW", to: ["en", "fr"] };
  const search = talkSearchOf({ ...searchOfLanguages(languages), people: 2 });
  expect(search).toEqual({ people: 2, from: "zh-TW", to: "en,fr" });
  expect(languagesOf(search)).toEqual(languages);
  expect(languagesOf(talkSearchOf({ from: "", to: "" }))).toEqual({ from: "", to: [] });
});

test("an address that says nothing, or nothing that can be understood, is as usual", () => {
  expect(talkSearchOf({ from: 7, to: ["es"], people: 3, pauses: "browser" })).toEqual({});
  expect(languagesOf({})).toEqual({ from: "en", to: ["es"] });
});
