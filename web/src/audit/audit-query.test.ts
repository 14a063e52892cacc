import { expect, test } from "vitest";

import { auditQueryOf, NOTHING_ASKED } from "./audit-query";

test("nothing asked asks for everything", () => {
  expect(auditQueryOf(NOTHING_ASKED, "")).toEqual({});
});

test("what is written is asked for, without blanks around it", () => {
  const asked = { actor: " k-1 ", action: "node.drain", subject: "  ", outcome: "refused" };
  expect(auditQueryOf(asked, "next")).toEqual({
    actor: "k-1",
    action: "node.drain",
    outcome: "refused",
    cursor: "next",
  });
});

test("an outcome that there is none of is not asked for", () => {
  expect(auditQueryOf({ ...NOTHING_ASKED, outcome: "odd" }, "")).toEqual({});
});
