import { expect, test } from "vitest";

import { en } from "../messages/en";
import { textOf } from "../messages/text";
import { zh } from "../messages/zh";
import { endOf, refusalOf, toldOf } from "./talk-problem";

const unserved = (details: Record<string, unknown>) =>
  refusalOf(
    {
      type: "error",
      code: "PAIR_UNSUPPORTED",
      message: "No known node serves en:zh-TW; register one that does.",
      tgt_lang: "zh-TW",
      details,
    },
    "en",
    ["es", "zh-TW"],
  );

test("a pair that no node serves is told with what is served instead, in the reader's language", () => {
  const near = toldOf(unserved({ near: ["zh"] }), ["es", "fr"], textOf(en), "en");
  expect(near.advice).toContain("from English (en) to Chinese");
  expect(near.advice).toContain("Served are: Chinese (zh).");
  expect(near.detail).toBe("PAIR_UNSUPPORTED");
  const other = toldOf(unserved({}), ["es", "fr"], textOf(en), "en");
  expect(other.advice).toContain("Served are: Spanish (es), French (fr).");
  const chinese = toldOf(unserved({ near: ["zh"] }), [], textOf(zh), "zh");
  expect(chinese.advice).toMatch(/英语 \(en\).*中文 \(zh\)/);
  expect(chinese.advice).not.toContain("node");
});

test("an end for good says what to do, and a code that is not known comes with its sentence", () => {
  const text = textOf(en);
  expect(toldOf(endOf(4401, "no key"), [], text, "en").advice).toContain("sign in");
  const unknown = refusalOf({ type: "error", code: "NEW_CODE", message: "It is new." }, "en", ["es"]);
  const told = toldOf(unknown, ["es"], text, "en");
  expect(told.advice).toContain("tell the operator");
  expect(told.detail).toBe("NEW_CODE: It is new.");
});

test("each reason why there is no microphone says what to do", () => {
  for (const microphone of ["denied", "missing", "busy", "failed"] as const) {
    expect(toldOf({ microphone }, [], textOf(en), "en").advice).toContain("press Speak again");
  }
});
