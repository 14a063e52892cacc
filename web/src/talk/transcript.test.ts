import type { TranslationResult } from "@dragoman/client";
import { expect, test } from "vitest";

import { merged, transcriptFile, withPartial, withResult, withText, type Transcript } from "./transcript";

const result = (fields: Partial<TranslationResult>): TranslationResult => ({
  type: "translation_result",
  session_id: "s-1",
  request_id: "s-1/0",
  delivery_seq: 1,
  utterance_index: 0,
  tgt_lang: "es",
  job_id: "j-1",
  scheduling: { queued_ms: 0, dispatch_ms: 1, node_ms: 2, total_ms: 3, attempts: 1 },
  ...fields,
});

const partial = (text: string) =>
  ({
    type: "asr_partial",
    session_id: "s-1",
    job_id: "j-1",
    utterance_index: 0,
    text,
    is_final: false,
  }) as const;

test("a caption grows, is settled by its result, and is not undone by a late partial", () => {
  let lines: Transcript = withPartial([], "a", 0, partial("hel"));
  expect(lines[0]).toMatchObject({ said: "hel", isPartial: true });
  lines = withResult(lines, "a", 0, result({ text_asr: "hello", text_translated: "hola" }));
  lines = withPartial(lines, "a", 0, partial("hell"));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ said: "hello", isPartial: false });
  expect(lines[0]?.translations["es"]?.text).toBe("hola");
});

test("each target has its own translation, and one that is missing says why", () => {
  let lines = withText([], "a", 0, "hello");
  lines = withResult(lines, "a", 0, result({ text_translated: "hola" }));
  lines = withResult(lines, "a", 0, {
    type: "missing_result",
    session_id: "s-1",
    delivery_seq: 2,
    utterance_index: 0,
    tgt_lang: "fr",
    reason: "PAIR_UNSUPPORTED",
  });
  expect(lines[0]?.said).toBe("hello");
  expect(lines[0]?.translations["fr"]?.missing).toBe("PAIR_UNSUPPORTED");
  expect(Object.keys(lines[0]?.translations ?? {})).toEqual(["es", "fr"]);
});

test("the transcript can be read as subtitles", () => {
  const first = withResult(withText([], "a", 0, "one"), "a", 0, result({ text_translated: "uno" }));
  const lines = withText(first, "b", 61_500, "two");
  expect(transcriptFile(lines, "srt")).toBe(
    "1\n00:00:00,000 --> 00:01:01,500\none\nuno\n\n2\n00:01:01,500 --> 00:01:04,500\ntwo",
  );
  expect(transcriptFile(lines, "txt")).toBe("one\nuno\n\ntwo");
  expect(JSON.parse(transcriptFile(lines, "json"))).toHaveLength(2);
});

test("what two people say is one conversation, in the order in which it was said", () => {
  const near = withText(withText([], "n0", 10, "hello"), "n1", 30, "how are you");
  const far = withText([], "f0", 20, "hola");
  expect(merged(far, near).map(({ said }) => said)).toEqual(["hello", "hola", "how are you"]);
});
