import { expect, test } from "vitest";

import { en } from "./en";
import { firstLanguage, textOf } from "./text";
import { zh } from "./zh";

const places = (message: string) => [...message.matchAll(/\{\w+\}/g)].map(String).sort();

test("every message has the same places for values in both languages", () => {
  for (const key of Object.keys(en) as (keyof typeof en)[]) {
    expect([key, places(zh[key])]).toEqual([key, places(en[key])]);
  }
});

test("a value is put where its name stands, and markup in it stays text", () => {
  const text = textOf({ ...en, nodeTitle: "Node {node}" });
  expect(text("nodeTitle", { node: "<b>$&</b>" })).toBe("Node <b>$&</b>");
});

test("the language is the reader's choice, else the browser's first known one, else English", () => {
  expect(firstLanguage("zh", ["en-GB"])).toBe("zh");
  expect(firstLanguage(null, ["fr", "zh-TW", "en"])).toBe("zh");
  expect(firstLanguage("xx", ["fr"])).toBe("en");
});
