import type { LinkProps } from "@tanstack/react-router";

import type { Me } from "../api/identity";
import type { MessageKey } from "../messages/text";

interface NavigationEntry {
  path: NonNullable<LinkProps["to"]>;
  title: MessageKey;
  /** What a reader must be allowed to see. */
  needs: string;
}

const PAGES: readonly NavigationEntry[] = [
  { path: "/", title: "overview", needs: "stats" },
  { path: "/pairs", title: "pairs", needs: "pools" },
  { path: "/nodes", title: "nodes", needs: "nodes" },
  { path: "/sessions", title: "sessions", needs: "sessions" },
  { path: "/jobs", title: "jobs", needs: "jobs" },
  { path: "/talk", title: "talk", needs: "session_socket" },
  { path: "/lab", title: "lab", needs: "experiments" },
  { path: "/cluster", title: "cluster", needs: "cluster" },
  { path: "/audit", title: "audit", needs: "audit" },
  { path: "/alerts", title: "alerts", needs: "stats" },
  { path: "/settings", title: "settings", needs: "settings" },
];

/** The pages that the navigation and the palette lead a reader to, in their order. */
export function pagesFor(me: Me | undefined): readonly NavigationEntry[] {
  return PAGES.filter((page) => me?.sees.includes(page.needs));
}
