import { expect, test } from "vitest";

import type { PairRow } from "../live/fleet-state";
import { pairHealth, pairMatrix } from "./pair-matrix";

const row = (pair: string, fields: Partial<PairRow> = {}): PairRow => ({
  pair,
  nodes: 1,
  ready: 1,
  slots: 4,
  free: 4,
  refused: 0,
  ...fields,
});

test("a matrix has every language that is spoken and every one that is heard", () => {
  const matrix = pairMatrix([row("zh:en"), row("en:zh"), row("en:es"), row("*")]);
  expect(matrix.sources).toEqual(["en", "zh"]);
  expect(matrix.targets).toEqual(["en", "es", "zh"]);
  expect(matrix.at("en", "es")?.pair).toBe("en:es");
  expect(matrix.at("zh", "es")).toBeUndefined();
});

test("a pair is unserved without a ready node, full without a free slot, busy with few", () => {
  expect(pairHealth(row("a:b", { ready: 0, slots: 0, free: 0 }))).toBe("unserved");
  expect(pairHealth(row("a:b", { free: 0 }))).toBe("full");
  expect(pairHealth(row("a:b", { slots: 100, free: 24 }))).toBe("busy");
  expect(pairHealth(row("a:b", { slots: 100, free: 25 }))).toBe("free");
});
