import { expect, test } from "vitest";

import { listAfter } from "./experiment-list";
import type { Experiment, ListMessage } from "./types";

const experiment = (experiment_id: string, created_at: string, status = "pending") =>
  ({ experiment_id, created_at, status }) as Experiment;

const message = (fields: Partial<ListMessage>): ListMessage => ({
  type: "experiments",
  reset: false,
  changed: [],
  gone: [],
  ...fields,
});

test("a new experiment stands first, a changed one keeps its place, a deleted one is gone", () => {
  const first = listAfter(
    null,
    message({ reset: true, changed: [experiment("b", "2026-02"), experiment("a", "2026-01")] }),
  );
  const then = listAfter(
    first,
    message({ changed: [experiment("c", "2026-03"), experiment("a", "2026-01", "success")] }),
  );
  expect([...then.keys()]).toEqual(["c", "b", "a"]);
  expect(then.get("a")?.status).toBe("success");
  expect([...listAfter(then, message({ gone: ["b"] })).keys()]).toEqual(["c", "a"]);
});

test("a reset forgets what was known before", () => {
  const first = listAfter(null, message({ reset: true, changed: [experiment("a", "2026-01")] }));
  const then = listAfter(first, message({ reset: true, changed: [experiment("b", "2026-02")] }));
  expect([...then.keys()]).toEqual(["b"]);
});
