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

test("both languages have every message, and none is empty", () => {
  expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  for (const messages of [en, zh]) {
    expect(Object.entries(messages).filter(([, message]) => message.trim() === "")).toEqual([]);
  }
});

test("every message is used", () => {
  const sources = Object.values(
    import.meta.glob<string>(["../**/*.ts", "../**/*.tsx", "!./*.ts"], {
      eager: true,
      query: "?raw",
      import: "default",
    }),
  ).join("\n");
  // Names of states and the like are put together: `item_${status}`.
  const families = [...sources.matchAll(/`(\w+)\$\{/g)].map(([, begin]) => begin ?? "");
  const isUsed = (key: string) =>
    new RegExp(`\\b${key}\\b`).test(sources) || families.some((begin) => key.startsWith(begin));
  expect(Object.keys(en).filter((key) => !isUsed(key))).toEqual([]);
});

test("a value is put where its name stands, and markup in it stays text", () => {
  const text = textOf({ ...en, nodeTitle: "Node {node}" });
  expect(text("nodeTitle", { node: "<b>$&</b>" })).toBe("Node <b>$&</b>");
});

test("a word follows the number that stands before it", () => {
  const text = textOf({ ...en, rowsShown: "{count} {count:row|rows}" });
  expect([0, 1, "1", "1,000"].map((count) => text("rowsShown", { count }))).toEqual([
    "0 rows",
    "1 row",
    "1 row",
    "1,000 rows",
  ]);
});

test("the language is the reader's choice, else the browser's first known one, else English", () => {
  expect(firstLanguage("zh", ["en-GB"])).toBe("zh");
  expect(firstLanguage(null, ["fr", "zh-TW", "en"])).toBe("zh");
  expect(firstLanguage("xx", ["fr"])).toBe("en");
});
