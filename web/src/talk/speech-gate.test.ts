import { expect, test } from "vitest";

import { levelOf, SpeechGate, ungated } from "./speech-gate";

const piece = (amplitude: number) => new Int16Array(1600).fill(amplitude);
const LOUD = 4000;

test("silence is kept back", () => {
  const gate = new SpeechGate();
  for (let index = 0; index < 50; index += 1) expect(gate.hear(piece(10))).toEqual([]);
  expect(gate.close()).toEqual([]);
});

test("speech is sent with a little of what came before it, and ends after a pause", () => {
  const gate = new SpeechGate();
  for (let index = 0; index < 10; index += 1) gate.hear(piece(index));
  const began = gate.hear(piece(LOUD));
  expect(began.map(({ samples }) => samples[0])).toEqual([7, 8, 9, LOUD]);
  expect(began.some(({ isFinal }) => isFinal)).toBe(false);
  const finals = Array.from({ length: 6 }, () => gate.hear(piece(0))[0]?.isFinal);
  expect(finals).toEqual([false, false, false, false, false, true]);
  expect(gate.hear(piece(0))).toEqual([]);
});

test("a short pause does not end an utterance, and closing does", () => {
  const gate = new SpeechGate();
  gate.hear(piece(LOUD));
  for (let index = 0; index < 5; index += 1) gate.hear(piece(0));
  expect(gate.hear(piece(LOUD))[0]?.isFinal).toBe(false);
  expect(gate.close().map(({ isFinal }) => isFinal)).toEqual([true]);
});

test("a server that finds the pauses is sent everything, and is told of the end", () => {
  const gate = ungated();
  expect(gate.hear(piece(0))).toEqual([{ samples: piece(0), isFinal: false }]);
  expect(gate.hear(piece(LOUD)).map(({ isFinal }) => isFinal)).toEqual([false]);
  expect(gate.close().map(({ isFinal }) => isFinal)).toEqual([true]);
});

test("the level is a share of full scale", () => {
  expect(levelOf(piece(16_384))).toBeCloseTo(0.5);
  expect(levelOf(new Int16Array())).toBe(0);
});
