import { expect, test } from "vitest";

import { EMPTY_DRAFT, orderOf } from "./new-experiment";

const draft = { ...EMPTY_DRAFT, name: " mine ", versionId: "v-1" };

test("what is left empty is not asked for", () => {
  const order = orderOf(draft, [], []);
  expect(order).toEqual({
    name: "mine",
    dataset_version_id: "v-1",
    target: { kind: "" },
    evaluators: [],
  });
});

test("a budget has what was given, and a cron comes with its time zone", () => {
  const limited = orderOf({ ...draft, cost: "0.5" }, [], []);
  expect(limited.budget).toEqual({ cost: 0.5 });
  const nightly = { ...draft, tokens: "1000", cron: " 30 2 * * * ", timezone: "Europe/Vienna" };
  const order = orderOf(nightly, [], []);
  expect(order.budget).toEqual({ tokens: 1000 });
  expect([order.cron, order.cron_timezone]).toEqual(["30 2 * * *", "Europe/Vienna"]);
});
