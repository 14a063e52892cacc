import { expect, test } from "vitest";

import { filteredSettings, settingsSearchOf } from "./settings-search";

const setting = (name: string, source: string) => ({ name, source, meaning: "How many." });

test("settings are found by name, meaning and source, and by whether they were given", () => {
  const all = [setting("server.port", "flag --port"), setting("limits.max_sessions", "default")];
  const names = (search: object) => filteredSettings(all, search).map(({ name }) => name);
  expect(names({})).toHaveLength(2);
  expect(names({ q: "PORT flag" })).toEqual(["server.port"]);
  expect(names({ q: "how many max" })).toEqual(["limits.max_sessions"]);
  expect(names({ given: true })).toEqual(["server.port"]);
});

test("what makes no sense in an address is left out", () => {
  expect(settingsSearchOf({ q: 8080, given: "yes", other: 1 })).toEqual({ q: "8080" });
});
