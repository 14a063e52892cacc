import { useState } from "react";

import { queryClient } from "../api/queries";
import type { Connection } from "../live/console-socket";
import { useWatched } from "../live/use-watched";
import { aggregatesKey, experimentKey, runsKey } from "./experiment-query";
import { doneAt, rateOf, type Done } from "./run-rate";
import { isRunning, type Experiment, type ExperimentMessage, type ResultRow } from "./types";

const ROWS_KEPT = 20;
/** Aggregates cost the server more than a count: while a run goes on they may be this old, or older. */
const AGGREGATES_EVERY_MS = 5_000;

/** What a page hears of an experiment while it is open. */
export interface LiveRun {
  connection: Connection;
  /** The rows that were archived last, the newest first. */
  rows: readonly ResultRow[];
  /** Items that ended in a second, lately; null before that is known. */
  itemsPerSecond: number | null;
  /** Call it once a new run was started: the socket of the former one is over. */
  watchAgain: () => void;
}

/** Keep an experiment up to date by the lab's own push, from its run's begin to its end. */
export function useLiveExperiment(experiment: Experiment): LiveRun {
  const id = experiment.experiment_id;
  const [rows, setRows] = useState<readonly ResultRow[]>([]);
  const [done, setDone] = useState<readonly Done[]>([]);
  const [runs, setRuns] = useState(0);
  // Once begun it goes on: the end comes after the news that the run has ended.
  const [isWatched, setWatched] = useState(isRunning(experiment));
  if (!isWatched && isRunning(experiment)) setWatched(true);
  // The number makes another socket of it; the server does not look at it.
  const path = isWatched ? `/ws/experiments/${encodeURIComponent(id)}?again=${runs}` : null;
  const onMessage = (message: ExperimentMessage) => {
    switch (message.type) {
      case "row":
        setRows((before) => [message, ...before].slice(0, ROWS_KEPT));
        return;
      case "stats": {
        const { status, stats, progress, eta_seconds } = message;
        queryClient.setQueryData<Experiment>(
          experimentKey(id),
          (before) => before && { ...before, status, stats, progress, eta_seconds },
        );
        setDone((before) => doneAt(before, stats, Date.now()));
        refreshOldAggregates(id);
        return;
      }
      case "end":
        void queryClient.invalidateQueries({ queryKey: experimentKey(id) });
        void queryClient.invalidateQueries({ queryKey: aggregatesKey(id) });
        void queryClient.invalidateQueries({ queryKey: runsKey(id) });
        return;
    }
  };
  const connection = useWatched<ExperimentMessage>({ path, onMessage });
  return {
    connection,
    rows,
    itemsPerSecond: rateOf(done),
    watchAgain: () => {
      setDone([]);
      setWatched(true);
      setRuns((before) => before + 1);
      void queryClient.invalidateQueries({ queryKey: experimentKey(id) });
    },
  };
}

function refreshOldAggregates(id: string): void {
  void queryClient.invalidateQueries({
    queryKey: aggregatesKey(id),
    predicate: ({ state, meta }) => {
      const mayBeOldMs = Number(meta?.["mayBeOldMs"] ?? AGGREGATES_EVERY_MS);
      return Date.now() - state.dataUpdatedAt >= mayBeOldMs;
    },
  });
}
