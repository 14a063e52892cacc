import { expect, test } from "vitest";

import type { NodeRow } from "../live/fleet-state";
import { orderedNodes } from "./node-order";

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
const ids = (rows: readonly NodeRow[]) => rows.map(({ node_id }) => node_id);

test("numbers in ids are numbers", () => {
  const rows = [row("n-10"), row("n-9"), row("a-11")];
  expect(ids(orderedNodes(rows, "node_id", false))).toEqual(["a-11", "n-9", "n-10"]);
  expect(ids(orderedNodes(rows, "node_id", true))).toEqual(["n-10", "n-9", "a-11"]);
});

test("rows that are equal stand in the order of their ids, whichever way", () => {
  const rows = [row("n-3", 1), row("n-2", 2), row("n-1", 1)];
  expect(ids(orderedNodes(rows, "used", false))).toEqual(["n-1", "n-3", "n-2"]);
  expect(ids(orderedNodes(rows, "used", true))).toEqual(["n-2", "n-1", "n-3"]);
});
