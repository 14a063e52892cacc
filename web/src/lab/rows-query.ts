import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import { readFilter } from "./filter-text";
import type { RowsSearch } from "./rows-search";
import type { ResultRow } from "./types";

const ROWS_A_PAGE = 200;
const FIRST_ROWS = 20;

export const rowsKey = (experimentId: string) => ["rows", experimentId] as const;

/** The rows of a list, a page at a time: each page begins behind the last row of the one before. */
export function rowsQuery(experimentId: string, search: RowsSearch) {
  return infiniteQueryOptions({
    queryKey: [...rowsKey(experimentId), "list", search],
    queryFn: ({ pageParam, signal }) =>
      answerOf(
        api.POST("/api/v1/experiments/{experiment_id}/results", {
          params: { path: { experiment_id: experimentId } },
          body: {
            filter: readFilter(search.filter ?? ""),
            sort: sortOf(search),
            limit: ROWS_A_PAGE,
            ...(pageParam && { cursor: pageParam }),
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
}

/** The first rows in the order of the dataset, which tell what columns there are and what they hold. */
export function firstRowsQuery(experimentId: string) {
  return queryOptions({
    queryKey: [...rowsKey(experimentId), "first"],
    queryFn: () => rowsWhere(experimentId, null, FIRST_ROWS),
    staleTime: 60_000,
  });
}

/** How many rows pass the filter. */
export function countQuery(experimentId: string, search: RowsSearch) {
  const filter = readFilter(search.filter ?? "");
  return queryOptions({
    queryKey: [...rowsKey(experimentId), "count", search.filter],
    queryFn: async ({ signal }) => {
      const found = await answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/results/count", {
          params: {
            path: { experiment_id: experimentId },
            query: filter === null ? {} : { filter: JSON.stringify(filter) },
          },
          signal,
        }),
      );
      return found.count;
    },
    staleTime: 60_000,
  });
}

/** Every turn of one repetition of an item. */
export function itemQuery(experimentId: string, itemId: string, repetition: number) {
  return queryOptions({
    queryKey: [...rowsKey(experimentId), "item", itemId, repetition],
    queryFn: () =>
      rowsWhere(experimentId, {
        and: [
          { field: "item_id", op: "=", value: itemId },
          { field: "repetition", op: "=", value: repetition },
        ],
      }),
  });
}

async function rowsWhere(
  experimentId: string,
  filter: unknown,
  limit = ROWS_A_PAGE,
): Promise<readonly ResultRow[]> {
  const page = await answerOf(
    api.POST("/api/v1/experiments/{experiment_id}/results", {
      params: { path: { experiment_id: experimentId } },
      body: { filter, limit },
    }),
  );
  return page.items;
}

function sortOf({ sort, desc }: RowsSearch): { field: string; order: string }[] {
  return sort === undefined ? [] : [{ field: sort, order: desc ? "desc" : "asc" }];
}
