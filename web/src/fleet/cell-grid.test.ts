import { expect, test } from "vitest";

import { cellGrid, gridHeight, indexAt, inSight, PITCH_PX, stepBy } from "./cell-grid";

const grid = cellGrid(10 * PITCH_PX + 3, 95);

test("as many squares stand in a row as fit, and at least one", () => {
  expect(grid.columns).toBe(10);
  expect(gridHeight(grid)).toBe(10 * PITCH_PX);
  expect(cellGrid(2, 5).columns).toBe(1);
});

test("a point is a node's, or none's", () => {
  expect(indexAt(grid, 0, 0)).toBe(0);
  expect(indexAt(grid, 2 * PITCH_PX + 1, PITCH_PX + 1)).toBe(12);
  expect(indexAt(grid, 10 * PITCH_PX + 1, 0)).toBeNull();
  expect(indexAt(grid, 6 * PITCH_PX, 9 * PITCH_PX)).toBeNull();
  expect(indexAt(grid, -1, 0)).toBeNull();
});

test("only what is in sight is drawn", () => {
  expect(inSight(grid, PITCH_PX, 2 * PITCH_PX)).toEqual([10, 30]);
  expect(inSight(grid, 9 * PITCH_PX, 5 * PITCH_PX)).toEqual([90, 95]);
});

test("keys lead from square to square and stop at the edges", () => {
  expect(stepBy(grid, 12, "ArrowDown")).toBe(22);
  expect(stepBy(grid, 2, "ArrowUp")).toBe(2);
  expect(stepBy(grid, 0, "End")).toBe(94);
  expect(stepBy(grid, 94, "ArrowRight")).toBe(94);
  expect(stepBy(grid, 94, "x")).toBeNull();
});
