import type { components } from "../api/schema";
import type { MessageOf } from "../live/fleet-state";

type SessionPage = components["schemas"]["SessionPage"];

/** Sessions that were read page by page, in the order of their ids, after what changed of them. */
export function changedSessions(
  pages: readonly SessionPage[],
  { changed, gone }: Pick<MessageOf<"sessions">, "changed" | "gone">,
): SessionPage[] {
  const fresh = new Map(changed.map((session) => [session.session_id, session]));
  const left = new Set(gone);
  return pages.map((page, index) => {
    const before = pages[index - 1]?.items.at(-1)?.session_id ?? "";
    const last = page.items.at(-1)?.session_id ?? "";
    // What comes after all that was read is read with the next page, where there is one.
    const isEnd = index === pages.length - 1 && page.next === null;
    const items = new Map(page.items.map((session) => [session.session_id, session]));
    for (const [id, session] of fresh) {
      if (id > before && (isEnd || id <= last)) items.set(id, session);
    }
    for (const id of left) items.delete(id);
    return {
      ...page,
      items: [...items.values()].sort((one, other) => (one.session_id < other.session_id ? -1 : 1)),
    };
  });
}
