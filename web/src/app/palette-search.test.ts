import { expect, test } from "vitest";

import { matching } from "./palette-search";

const named = (label: string) => ({ id: label, label });
const ALL = ["Nodes", "Use the dark theme", "Node n-1", "Node n-12", "Sign out"].map(named);
const labels = (query: string) => matching(ALL, query).map(({ label }) => label);

test("a few letters find everything whose name has them, the best first", () => {
  expect(labels("th")).toEqual(["Use the dark theme"]);
  expect(labels("o")).toEqual(["Nodes", "Node n-1", "Node n-12", "Sign out"]);
  expect(labels("DARK use")).toEqual(["Use the dark theme"]);
  expect(labels("node n")).toEqual(["Node n-1", "Node n-12", "Nodes"]);
  expect(labels("zzz")).toEqual([]);
});

test("no more are shown than a reader looks through", () => {
  const many = Array.from({ length: 10_000 }, (_, number) => named(`Node n-${number}`));
  expect(matching(many, "node")).toHaveLength(20);
});
