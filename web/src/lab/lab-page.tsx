import { Button, Code, Group, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { LiveMark } from "../app/live-mark";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { useWatched } from "../live/use-watched";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { listAfter, type ExperimentList } from "./experiment-list";
import { ExperimentTable } from "./experiment-table";
import { LabNavigation } from "./lab-navigation";
import type { ListMessage } from "./types";

/** As many as the lab keeps a reader told of. */
const LISTED = 100;

/** The tenant's experiments: the latest ones live, older ones on demand. */
export function LabPage() {
  const text = useText();
  const [list, setList] = useState<ExperimentList | null>(null);
  const connection = useWatched<ListMessage>({
    path: "/ws/experiments",
    onMessage: (message) => {
      setList((before) => listAfter(before, message));
    },
  });
  return (
    <Stack>
      <Group justify="space-between">
        <PageTitle>{text("lab")}</PageTitle>
        <LiveMark connection={connection} />
      </Group>
      <LabNavigation />
      {list === null ? <Loading /> : <Experiments list={list} />}
    </Stack>
  );
}

function Experiments({ list }: { list: ExperimentList }) {
  const text = useText();
  const [isOlderWanted, setOlderWanted] = useState(false);
  const older = useInfiniteQuery({
    queryKey: ["experiments"],
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/experiments", {
          params: { query: { limit: LISTED, ...(pageParam && { cursor: pageParam }) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    enabled: isOlderWanted,
  });
  if (list.size === 0) return <NoExperiments />;
  const read = older.data?.pages.flatMap((page) => page.items) ?? [];
  const rows = [...list.values(), ...read.filter((one) => !list.has(one.experiment_id))];
  const mayHaveMore = isOlderWanted ? older.hasNextPage : list.size >= LISTED;
  return (
    <Stack>
      <ExperimentTable rows={rows} />
      {older.error && <ProblemAlert error={older.error} />}
      {mayHaveMore && (
        <Button
          variant="default"
          loading={older.isFetching}
          onClick={() => {
            setOlderWanted(true);
            if (isOlderWanted) void older.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </Stack>
  );
}

function NoExperiments() {
  const text = useText();
  return (
    <Stack gap="xs">
      <Text>{text("noExperiments")}</Text>
      <Code block>{`dragoman init experiment\ndragoman experiment run experiment.toml`}</Code>
    </Stack>
  );
}
