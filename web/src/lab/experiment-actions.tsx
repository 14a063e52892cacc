import { Group } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

import { answerOf, api, problemOf } from "../api/client";
import { useMayAct } from "../api/identity";
import { ConfirmedAction } from "../app/confirmed-action";
import { useText } from "../messages/text";
import { hasEnded, isRunning, type Experiment } from "./types";

interface ExperimentActionsProps {
  experiment: Experiment;
  /** Called once a run was started, or told to end. */
  onStarted: () => void;
}

type Mode = "submit" | "append" | "fail_retry" | "retry_all";

/** What a reader who may act can do with the experiment as it stands. */
export function ExperimentActions({ experiment, onStarted }: ExperimentActionsProps) {
  const text = useText();
  const navigate = useNavigate();
  const mayAct = useMayAct("experiments");
  const name = experiment.name;
  const path = { path: { experiment_id: experiment.experiment_id } };
  if (!mayAct) return null;
  const start = (mode: Mode) => () =>
    answerOf(api.POST("/api/v1/experiments/{experiment_id}/runs", { params: path, body: { mode } }));
  const isOpen = experiment.dataset_version_id === null || experiment.cron !== null;
  if (isRunning(experiment)) {
    return (
      <Group>
        <ConfirmedAction
          label={text("kill")}
          consequence={text("killConsequence", { name })}
          color="red"
          act={() =>
            answerOf(api.POST("/api/v1/experiments/{experiment_id}/kill", { params: path }))
          }
          onDone={onStarted}
        />
        {isOpen && experiment.status === "processing" && (
          <ConfirmedAction
            label={text("finish")}
            consequence={text("finishConsequence", { name })}
            act={() =>
              answerOf(api.POST("/api/v1/experiments/{experiment_id}/finish", { params: path }))
            }
            onDone={onStarted}
          />
        )}
      </Group>
    );
  }
  const ended = hasEnded(experiment.status) && experiment.run_id !== null;
  const isUndone = experiment.stats.fail + experiment.stats.terminated > 0;
  return (
    <Group>
      {ended && isUndone && !isOpen && (
        <ConfirmedAction
          label={text("retryFailures")}
          consequence={text("retryFailuresConsequence", { name })}
          act={start("fail_retry")}
          onDone={onStarted}
        />
      )}
      <ConfirmedAction
        label={text(ended ? "runAgain" : "start")}
        consequence={text(ended ? "runAgainConsequence" : "startConsequence", { name })}
        act={start(isOpen ? "append" : ended ? "retry_all" : "submit")}
        onDone={onStarted}
      />
      <ConfirmedAction
        label={text("delete")}
        consequence={text("deleteExperimentConsequence", { name })}
        color="red"
        act={async () => {
          const { error, response } = await api.DELETE("/api/v1/experiments/{experiment_id}", {
            params: path,
          });
          if (!response.ok) throw problemOf(error, response.status);
        }}
        onDone={() => {
          void navigate({ to: "/lab" });
        }}
      />
    </Group>
  );
}
