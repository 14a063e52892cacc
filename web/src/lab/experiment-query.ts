import { queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import type { Experiment, HourPage, RunPage } from "./types";

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

/** Every run of an experiment. */
export function runsQuery(id: string) {
  return queryOptions({
    queryKey: runsKey(id),
    queryFn: (): Promise<RunPage> =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/runs", {
          params: { path: { experiment_id: id } },
        }),
      ),
  });
}

/** The scores of the hours of the last week; they are refreshed with the aggregates. */
export function hoursQuery(id: string) {
  return queryOptions({
    queryKey: [...aggregatesKey(id), "by", "hour"],
    meta: { mayBeOldMs: 60_000 },
    queryFn: (): Promise<HourPage> =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/hours", {
          params: { path: { experiment_id: id } },
        }),
      ),
  });
}
