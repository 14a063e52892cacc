import { expect, test } from "vitest";

import type { NodeRow } from "../live/fleet-state";
import { filteredNodes, isPair, nodeFilterOf } from "./node-filter";

const row = (node_id: string, fields: Partial<NodeRow> = {}): NodeRow => ({
  node_id,
  used: 0,
  status: "ready",
  reason: null,
  cell: 0,
  slots: 4,
  services: ["nmt"],
  languages: ["en", "es"],
  instance_id: "i-1",
  ...fields,
});

test("an address with nonsense in it shows what makes sense of it", () => {
  expect(nodeFilterOf({ q: "a", status: "gone", sort: "cell", desc: "yes", x: 1 })).toEqual({
    q: "a",
    sort: "cell",
  });
  expect(nodeFilterOf({ q: 7, status: "ready", pair: "en:es", desc: true })).toEqual({
    q: "7",
    status: "ready",
    pair: "en:es",
    desc: true,
  });
});

test("every word must be mentioned, in the name, the languages, the services or the reason", () => {
  const nodes = [row("gpu-1"), row("gpu-2", { languages: ["zh"], reason: "drained by an operator" })];
  const names = (q: string) => filteredNodes(nodes, { q }, null).map((node) => node.node_id);
  expect(names("GPU")).toEqual(["gpu-1", "gpu-2"]);
  expect(names("gpu zh")).toEqual(["gpu-2"]);
  expect(names("drained")).toEqual(["gpu-2"]);
  expect(names("e")).toEqual(["gpu-2"]);
});

test("a pair shows its members only, and none while they are not known", () => {
  const nodes = [row("a"), row("b")];
  expect(filteredNodes(nodes, { pair: "en:es" }, new Set(["b"]))).toEqual([row("b")]);
  expect(filteredNodes(nodes, { pair: "en:es" }, null)).toEqual([]);
  expect(filteredNodes(nodes, { status: "offline" }, null)).toEqual([]);
});

test("a pair is asked for once it is written to its end", () => {
  expect(["e", "en", "en:", "en:e", ":es", "en es"].map(isPair)).not.toContain(true);
  expect(["en:es", "zh-Hant:en-GB"].map(isPair)).toEqual([true, true]);
});
