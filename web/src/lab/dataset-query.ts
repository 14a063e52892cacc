import { queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";

export const datasetKey = (id: string) => ["dataset", id] as const;

/** A dataset with its latest version. */
export function datasetQuery(id: string) {
  return queryOptions({
    queryKey: datasetKey(id),
    queryFn: () =>
      answerOf(api.GET("/api/v1/datasets/{dataset_id}", { params: { path: { dataset_id: id } } })),
  });
}
