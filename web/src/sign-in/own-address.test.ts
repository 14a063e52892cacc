import { expect, test } from "vitest";

import { isOwnAddress } from "./own-address";

test("only a path of this console is gone to after signing in", () => {
  for (const own of ["/", "/nodes?q=a", "/nodes/a%2Fb"]) expect(isOwnAddress(own)).toBe(true);
  for (const other of ["//evil.example", "/\\evil.example", "https://evil.example", "x", "", 7, null]) {
    expect(isOwnAddress(other)).toBe(false);
  }
});
