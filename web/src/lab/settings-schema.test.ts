import { expect, test } from "vitest";

import { SettingProblem, settingsGiven, settingsOf } from "./settings-schema";

const SCHEMA = {
  $ref: "#/$defs/Settings",
  $defs: {
    Settings: {
      type: "object",
      properties: {
        url: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
        retries: { type: "integer", default: 2 },
        keep: { type: "boolean", default: false },
        method: { $ref: "#/$defs/Method" },
        body: { type: "object" },
        input: { type: "string" },
      },
      required: ["input"],
    },
    Method: { enum: ["GET", "POST"] },
  },
};

test("a schema's settings have their kinds, those that are required first", () => {
  const settings = settingsOf(SCHEMA);
  expect(settings.map(({ name, kind }) => `${name}: ${kind}`)).toEqual([
    "input: text",
    "url: text",
    "retries: number",
    "keep: switch",
    "method: choice",
    "body: json",
  ]);
  expect(settings[2]?.fallback).toBe("2");
  expect(settings[4]?.choices).toEqual(["GET", "POST"]);
});

test("what is written becomes what the API takes, and what is empty is left out", () => {
  const settings = settingsOf(SCHEMA);
  const written = { input: "source", retries: "3", keep: "true", body: '{"a": 1}', url: " " };
  expect(settingsGiven(settings, written)).toEqual({
    input: "source",
    retries: 3,
    keep: true,
    body: { a: 1 },
  });
  expect(() => settingsGiven(settings, { body: "{" })).toThrow(SettingProblem);
});
