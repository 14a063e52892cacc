import { expect, test } from "vitest";

import { soundFile, soundOf } from "./sound";

const sha256 = "a".repeat(64);

test("a value that names a checksum is a sound of the dataset", () => {
  expect(soundOf({ file: "a.wav", sha256 })).toEqual({ sha256, base64: null, format: "wav" });
});

test("a value that holds the sound has it, bare samples become a WAV file", async () => {
  const sound = soundOf({ sha256, base64: btoa("abcd"), format: "pcm16" });
  expect(sound).toEqual({ sha256, base64: btoa("abcd"), format: "pcm16" });
  const bytes = new Uint8Array(await soundFile(btoa("abcd"), "pcm16").arrayBuffer());
  expect(new TextDecoder().decode(bytes.slice(0, 4))).toBe("RIFF");
  expect(bytes.length).toBe(48);
  expect(soundFile(btoa("RIFF"), "wav").size).toBe(4);
});

test("everything else is no sound", () => {
  for (const value of [null, "a", 3, {}, { sha256: "../x" }, { sha256: 3 }]) {
    expect(soundOf(value)).toBeNull();
  }
});
