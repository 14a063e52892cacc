import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";

import { Problem } from "../api/client";
import { knownMe } from "../api/identity";
import { nodeFilterOf } from "../fleet/node-filter";
import { compareSearchOf } from "../lab/compare-search";
import { groupSearchOf, rowSearchOf, rowsSearchOf } from "../lab/rows-search";
import { versionsSearchOf } from "../lab/versions-search";
import { settingsSearchOf } from "../operate/settings-search";
import { isOwnAddress } from "../sign-in/own-address";
import { talkSearchOf } from "../talk/talk-search";
import { NoSuchPage, PageFailed } from "./page-problems";
import { pagesFor } from "./pages";
import { Shell } from "./shell";

const root = createRootRoute({ notFoundComponent: NoSuchPage });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (search): { next?: string; refused?: string } => {
    const { next, refused } = search;
    return {
      ...(isOwnAddress(next) && { next }),
      ...(typeof refused === "string" && { refused }),
    };
  },
  component: lazyRouteComponent(() => import("../sign-in/sign-in-page"), "SignInPage"),
});

/** Every page but the one to sign in: for readers whom the server knows. */
const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  component: Shell,
  beforeLoad: async ({ location }) => {
    try {
      await knownMe();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 401) throw error;
      // TanStack Router takes a redirect that is thrown.
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      throw redirect({ to: "/sign-in", search: { next: location.href } });
    }
  },
});

/** Pages for everyone, also for those who have not signed in. */
const open = createRoute({ getParentRoute: () => root, id: "open", component: Shell });

const openPages = [
  createRoute({
    getParentRoute: () => open,
    path: "/docs",
    validateSearch: ({ q }): { q?: string } =>
      (typeof q === "string" || typeof q === "number") && q !== "" ? { q: String(q) } : {},
    component: lazyRouteComponent(() => import("../docs/docs-page"), "DocsPage"),
  }),
] as const;

const pages = [
  createRoute({
    getParentRoute: () => shell,
    path: "/",
    beforeLoad: async () => {
      const [first] = pagesFor(await knownMe());
      // eslint-disable-next-line @typescript-eslint/only-throw-error
      if (first !== undefined && first.path !== "/") throw redirect({ to: first.path });
    },
    component: lazyRouteComponent(() => import("../fleet/overview-page"), "OverviewPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/nodes",
    validateSearch: nodeFilterOf,
    component: lazyRouteComponent(() => import("../fleet/nodes-page"), "NodesPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/nodes/$nodeId",
    component: lazyRouteComponent(() => import("../fleet/node-page"), "NodePage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/pairs",
    component: lazyRouteComponent(() => import("../fleet/pairs-page"), "PairsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/sessions",
    component: lazyRouteComponent(() => import("../fleet/sessions-page"), "SessionsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/sessions/$sessionId",
    component: lazyRouteComponent(() => import("../fleet/session-page"), "SessionPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/jobs",
    component: lazyRouteComponent(() => import("../fleet/jobs-page"), "JobsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/jobs/$jobId",
    component: lazyRouteComponent(() => import("../fleet/job-page"), "JobPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/talk",
    validateSearch: talkSearchOf,
    component: lazyRouteComponent(() => import("../talk/talk-page"), "TalkPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab",
    component: lazyRouteComponent(() => import("../lab/lab-page"), "LabPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/experiments/$experimentId",
    validateSearch: groupSearchOf,
    component: lazyRouteComponent(() => import("../lab/experiment-page"), "ExperimentPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/experiments/$experimentId/rows",
    validateSearch: rowsSearchOf,
    component: lazyRouteComponent(() => import("../lab/rows-page"), "RowsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/experiments/$experimentId/rows/$itemId",
    validateSearch: rowSearchOf,
    component: lazyRouteComponent(() => import("../lab/row-page"), "RowPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/compare",
    validateSearch: compareSearchOf,
    component: lazyRouteComponent(() => import("../lab/compare-page"), "ComparePage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/datasets",
    component: lazyRouteComponent(() => import("../lab/datasets-page"), "DatasetsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/datasets/$datasetId",
    validateSearch: versionsSearchOf,
    component: lazyRouteComponent(() => import("../lab/dataset-page"), "DatasetPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/lab/new",
    component: lazyRouteComponent(() => import("../lab/new-experiment-page"), "NewExperimentPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/alerts",
    component: lazyRouteComponent(() => import("../operate/alerts-page"), "AlertsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/settings",
    validateSearch: settingsSearchOf,
    component: lazyRouteComponent(() => import("../operate/settings-page"), "SettingsPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/cluster",
    component: lazyRouteComponent(() => import("../fleet/cluster-page"), "ClusterPage"),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: "/audit",
    component: lazyRouteComponent(() => import("../audit/audit-page"), "AuditPage"),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren([signIn, open.addChildren(openPages), shell.addChildren(pages)]),
  defaultErrorComponent: PageFailed,
  defaultPreload: "intent",
  // What a route's validateSearch leaves out is not there.
  search: { strict: true },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
