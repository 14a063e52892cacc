import type { LinkProps } from "@tanstack/react-router";

import type { Me } from "../api/identity";
import type { MessageKey } from "../messages/text";
import type { IconName } from "./icons";

/** What pages are for, in the order of the navigation. */
export const PAGE_USES = ["watch", "use", "operate"] as const;
type PageUse = (typeof PAGE_USES)[number];

interface NavigationEntry {
  path: NonNullable<LinkProps["to"]>;
  title: MessageKey;
  icon: IconName;
  /** What a reader does with it; pages of one use stand together. */
  use: PageUse;
  /** What a reader must be allowed to see. */
  needs: string;
}

const PAGES: readonly NavigationEntry[] = [
  { path: "/", title: "overview", icon: "overview", use: "watch", needs: "stats" },
  { path: "/pairs", title: "pairs", icon: "pairs", use: "watch", needs: "pools" },
  { path: "/nodes", title: "nodes", icon: "nodes", use: "watch", needs: "nodes" },
  { path: "/sessions", title: "sessions", icon: "sessions", use: "watch", needs: "sessions" },
  { path: "/jobs", title: "jobs", icon: "jobs", use: "watch", needs: "jobs" },
  { path: "/talk", title: "talk", icon: "talk", use: "use", needs: "session_socket" },
  { path: "/lab", title: "lab", icon: "lab", use: "use", needs: "experiments" },
  { path: "/cluster", title: "cluster", icon: "cluster", use: "operate", needs: "cluster" },
  { path: "/audit", title: "audit", icon: "audit", use: "operate", needs: "audit" },
  { path: "/alerts", title: "alerts", icon: "alerts", use: "operate", needs: "stats" },
  { path: "/settings", title: "settings", icon: "settings", use: "operate", needs: "settings" },
];

/** The pages that the navigation and the palette lead a reader to, in their order. */
export function pagesFor(me: Me | undefined): readonly NavigationEntry[] {
  return PAGES.filter((page) => me?.sees.includes(page.needs));
}
