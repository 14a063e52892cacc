/**
 * The client in node, against the real server at DRAGOMAN_URL, whose nodes serve en to es.
 * `tests/integration/clients/test_typescript.py` starts both.
 */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Session, type AsrPartial, type MissingResult, type TranslationResult } from "../src/index.ts";

const url = process.env["DRAGOMAN_URL"] ?? "ws://127.0.0.1:8080";
const PATIENCE_MS = 30_000;

type Result = TranslationResult | MissingResult;

/** A session, and what it was told so far. */
class Heard {
  readonly results: Result[] = [];
  readonly partials: AsrPartial[] = [];
  readonly states: string[] = [];
  readonly errors: string[] = [];
  ended: string | null = null;
  readonly session: Session;
  private changed: () => void = () => undefined;

  constructor(tgtLangs: readonly string[], address = url) {
    const told = () => {
      this.changed();
    };
    this.session = new Session(
      { url: address, srcLang: "en", tgtLangs },
      {
        onResult: (result) => {
          this.results.push(result);
          told();
        },
        onPartial: (partial) => {
          this.partials.push(partial);
          told();
        },
        onState: (state) => {
          this.states.push(state);
          told();
        },
        onError: (error) => {
          this.errors.push(error.code);
          told();
        },
        onEnd: (reason) => {
          this.ended = reason;
          told();
        },
      },
    );
  }

  /** Wait until the condition holds; it is tried again after each thing that is told. */
  async until(condition: () => boolean, what: string): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (!condition()) {
      const leftMs = deadline - Date.now();
      assert.ok(leftMs > 0, `it never happened that ${what}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

function translated(result: Result | undefined): string {
  assert.equal(result?.type, "translation_result");
  return result.text_translated ?? "";
}

test("texts are answered in order, each once", async () => {
  const heard = new Heard(["es"]);
  const said = ["one", "two", "three", "four"];
  const indexes = said.map((text) => heard.session.say(text, { speech: false }));
  await heard.until(() => heard.results.length === said.length, "all are answered");
  assert.deepEqual(
    heard.results.map(({ utterance_index }) => utterance_index),
    indexes,
  );
  heard.results.forEach((result, index) => {
    assert.ok(translated(result).includes(said[index] ?? "?"));
  });
  heard.session.close();
  assert.equal(heard.session.state, "closed");
  assert.equal(heard.ended, "closed by the client");
});

test("speech comes back with a text, and with sound where that is asked for", async () => {
  const heard = new Heard(["es"]);
  const samples = Int16Array.from({ length: 8000 }, (_, at) => 8000 * Math.sin(at / 5));
  heard.session.sendAudio(samples, false);
  heard.session.sendAudio(samples, true);
  await heard.until(() => heard.results.length === 1, "the speech is answered");
  assert.notEqual(translated(heard.results[0]), "");
  heard.session.close();

  const spoken = new Heard(["es"]);
  spoken.session.say("aloud", { speech: true });
  await spoken.until(() => spoken.results.length === 1, "the text is answered");
  const [result] = spoken.results;
  assert.equal(result?.type, "translation_result");
  assert.ok((result.tts_audio ?? "").length > 100);
  spoken.session.close();
});

test("each target is answered, and one that no node serves says why", async () => {
  const heard = new Heard(["es", "xx"]);
  heard.session.say("hello", { speech: false });
  await heard.until(() => heard.results.length === 2, "both targets are answered");
  const missing = heard.results.find(({ type }) => type === "missing_result");
  assert.equal(missing?.tgt_lang, "xx");
  assert.equal(missing.type === "missing_result" && missing.reason, "PAIR_UNSUPPORTED");
  assert.deepEqual(heard.errors, ["PAIR_UNSUPPORTED"]);
  heard.session.close();
});

test("a connection that breaks costs no word and repeats none", async () => {
  const sockets: WebSocket[] = [];
  const Original = globalThis.WebSocket;
  globalThis.WebSocket = class extends Original {
    constructor(address: string | URL, protocols?: string | string[]) {
      super(address, protocols);
      sockets.push(this);
    }
  };
  try {
    const heard = new Heard(["es"]);
    heard.session.say("before", { speech: false });
    await heard.until(() => heard.results.length === 1, "the first is answered");
    heard.session.say("during", { speech: false });
    sockets.at(-1)?.close(3000);
    await heard.until(() => heard.states.includes("resuming"), "the loss is noticed");
    heard.session.say("while away", { speech: false });
    await heard.until(() => heard.results.length === 3, "all are answered");
    assert.equal(sockets.length, 2);
    assert.equal(heard.session.state, "live");
    assert.deepEqual(
      heard.results.map(({ utterance_index }) => utterance_index),
      [0, 1, 2],
    );
    heard.session.close();
  } finally {
    globalThis.WebSocket = Original;
  }
});
