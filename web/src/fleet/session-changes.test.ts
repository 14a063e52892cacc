import { expect, test } from "vitest";

import { changedSessions } from "./session-changes";

const session = (session_id: string, utterances = 0) => ({
  session_id,
  utterances,
  tenant_id: "default",
  src_lang: "en",
  tgt_langs: ["es"],
  state: "active" as const,
  instance_id: "i-1",
  in_flight: 0,
});
const page = (ids: readonly string[], next: string | null) => ({
  items: ids.map((id) => session(id)),
  next,
  unreachable: [],
});
const ids = (pages: ReturnType<typeof changedSessions>) =>
  pages.map(({ items }) => items.map(({ session_id }) => session_id));

test("sessions that came, changed and went stand where the server would have them", () => {
  const pages = [page(["b", "d"], "d"), page(["f", "h"], null)];
  const changed = [session("a"), session("d", 3), session("e"), session("k")];
  const after = changedSessions(pages, { changed, gone: ["f"] });
  expect(ids(after)).toEqual([
    ["a", "b", "d"],
    ["e", "h", "k"],
  ]);
  expect(after[0]?.items[2]?.utterances).toBe(3);
});

test("a session beyond what was read waits for its page", () => {
  const after = changedSessions([page(["b"], "b")], { changed: [session("c")], gone: [] });
  expect(ids(after)).toEqual([["b"]]);
});

test("the first session of all is shown", () => {
  const after = changedSessions([page([], null)], { changed: [session("a")], gone: [] });
  expect(ids(after)).toEqual([["a"]]);
});
