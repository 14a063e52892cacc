import { expect, test } from "vitest";

import { formatsOf } from "../app/formats";
import { en } from "../messages/en";
import { textOf } from "../messages/text";
import { latencyLine } from "./latency-line";

test("the stages of an utterance stand beside one sum", () => {
  const timings = { asr_ms: 200, semantic_ms: null, nmt_ms: 120, total_ms: 588 };
  const translation = { text: "hola", missing: null, totalMs: 589, timings };
  const line = latencyLine("es", translation, formatsOf("en"), textOf(en));
  expect(line).toBe("es · asr 200 ms · nmt 120 ms · in all 589 ms");
});
