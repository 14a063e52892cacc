import { queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import type { Experiment } from "./types";

export const experimentKey = (id: string) => ["experiment", id] as const;
export const aggregatesKey = (id: string) => ["aggregates", id] as const;
export const runsKey = (id: string) => ["runs", id] as const;

/** An experiment with its progress. */
export function experimentQuery(id: string) {
  return queryOptions({
    queryKey: experimentKey(id),
    queryFn: (): Promise<Experiment> =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: id } },
        }),
      ),
  });
}
