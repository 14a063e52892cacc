import { Anchor, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { answerOf, api } from "../api/client";
import { LiveMark } from "../app/live-mark";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { ExperimentActions } from "./experiment-actions";
import { ExperimentFacts } from "./experiment-facts";
import { aggregatesKey, experimentQuery } from "./experiment-query";
import { FailuresCard } from "./failures-card";
import { GroupsCard } from "./groups-card";
import { LabNavigation } from "./lab-navigation";
import { useLiveExperiment, type LiveRun } from "./live-experiment";
import { QualityCard } from "./quality-card";
import { RunningCard } from "./running-card";
import { RunsCard } from "./runs-card";
import { ScoresCard } from "./scores-card";
import { isRunning, type Experiment } from "./types";

const route = getRouteApi("/shell/lab/experiments/$experimentId");

/** One experiment: how it runs, and what came out of it. */
export function ExperimentPage() {
  const { experimentId } = route.useParams();
  const experiment = useQuery(experimentQuery(experimentId));
  if (experiment.isPending) return <Loading />;
  if (experiment.error) return <ProblemAlert error={experiment.error} />;
  return <Shown experiment={experiment.data} />;
}

function Shown({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const live = useLiveExperiment(experiment);
  const path = { experimentId: experiment.experiment_id };
  return (
    <Stack>
      <Group justify="space-between">
        <PageTitle>{experiment.name}</PageTitle>
        <LiveMark connection={live.connection} />
      </Group>
      <LabNavigation />
      <Group>
        <Anchor
          renderRoot={(props) => (
            <Link to="/lab/experiments/$experimentId/rows" params={path} {...props} />
          )}
        >
          {text("rows")}
        </Anchor>
        <Anchor
          renderRoot={(props) => (
            <Link
              to="/lab/compare"
              search={{ baseline: experiment.experiment_id }}
              {...props}
            />
          )}
        >
          {text("compareWithThis")}
        </Anchor>
        <ExperimentActions experiment={experiment} onStarted={live.watchAgain} />
      </Group>
      <ExperimentFacts experiment={experiment} />
      {isRunning(experiment) && <RunningCard experiment={experiment} run={live} />}
      <Results experiment={experiment} live={live} />
      <QualityCard experiment={experiment} />
      <RunsCard experiment={experiment} />
    </Stack>
  );
}

function Results({ experiment, live }: { experiment: Experiment; live: LiveRun }) {
  const { group } = route.useSearch();
  const path = { experiment_id: experiment.experiment_id };
  const aggregates = useQuery({
    queryKey: [...aggregatesKey(experiment.experiment_id), group ?? ""],
    queryFn: () =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/aggregates", {
          params: { path, query: group === undefined ? {} : { group_by: group } },
        }),
      ),
    placeholderData: (before) => before,
  });
  if (aggregates.isPending) return <Loading />;
  if (aggregates.error) return <ProblemAlert error={aggregates.error} />;
  return (
    <>
      <ScoresCard experiment={experiment} aggregates={aggregates.data} />
      <FailuresCard experiment={experiment} aggregates={aggregates.data} />
      <GroupsCard
        experiment={experiment}
        aggregates={aggregates.data}
        group={group}
        newestRow={live.rows[0]}
      />
    </>
  );
}
