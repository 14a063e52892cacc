import { expect, test } from "vitest";

import { NOTHING_KNOWN, told, type MessageOf, type NodeRow } from "./fleet-state";

const row = (node_id: string, used = 0): NodeRow => ({
  node_id,
  used,
  status: "ready",
  reason: null,
  cell: 0,
  slots: 4,
  services: ["nmt"],
  languages: ["en", "es"],
  instance_id: "i-1",
});

const nodes = (fields: Partial<MessageOf<"nodes">>): MessageOf<"nodes"> => ({
  type: "nodes",
  cursor: "c.1",
  reset: false,
  changed: [],
  gone: [],
  more: false,
  ...fields,
});

test("a change adds, replaces and removes rows, and leaves the others as they were", () => {
  const first = told(NOTHING_KNOWN, nodes({ reset: true, changed: [row("a"), row("b")] }));
  const then = told(first, nodes({ cursor: "c.2", changed: [row("b", 1)], gone: ["a"] }));
  expect([...(then.nodes?.values() ?? [])]).toEqual([row("b", 1)]);
  expect(first.nodes?.size).toBe(2);
});

test("a reset forgets what was known before", () => {
  const first = told(NOTHING_KNOWN, nodes({ reset: true, changed: [row("a")] }));
  const then = told(first, nodes({ reset: true, changed: [row("b")] }));
  expect([...(then.nodes?.keys() ?? [])]).toEqual(["b"]);
});

test("the console goes on from a change only once it has all of it", () => {
  const half = told(NOTHING_KNOWN, nodes({ reset: true, changed: [row("a")], more: true }));
  expect(half.cursors.nodes).toBeUndefined();
  const whole = told(half, nodes({ changed: [row("b")] }));
  expect(whole.cursors.nodes).toBe("c.1");
  expect(whole.nodes?.size).toBe(2);
});
