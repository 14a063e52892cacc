import { Anchor, Button, Group, SegmentedControl, Stack } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { useMayAct } from "../api/identity";
import { Loading } from "../app/loading";
import { usePageKeys } from "../app/page-keys";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { AnnotateCard } from "./annotate-card";
import { experimentQuery } from "./experiment-query";
import { LabNavigation } from "./lab-navigation";
import { RowCards } from "./row-cards";
import { itemQuery, rowsQuery } from "./rows-query";
import { rowSearchOf, rowsSearchOf } from "./rows-search";
import { TriesCard } from "./tries-card";
import type { Experiment, ResultRow } from "./types";

const route = getRouteApi("/shell/lab/experiments/$experimentId/rows/$itemId");

/** One row: what went in, what came out, how it was judged, and what people say of it. */
export function RowPage() {
  const { experimentId, itemId } = route.useParams();
  const { turn = 0, repetition = 1 } = route.useSearch();
  const experiment = useQuery(experimentQuery(experimentId));
  const turns = useQuery(itemQuery(experimentId, itemId, repetition));
  const error = experiment.error ?? turns.error;
  if (error) return <ProblemAlert error={error} />;
  if (!experiment.data || !turns.data) return <Loading />;
  return <Shown experiment={experiment.data} turns={turns.data} turn={turn} itemId={itemId} />;
}

interface ShownProps {
  experiment: Experiment;
  turns: readonly ResultRow[];
  turn: number;
  itemId: string;
}

function Shown({ experiment, turns, turn, itemId }: ShownProps) {
  const text = useText();
  const mayAct = useMayAct("experiments");
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/experiments/$experimentId/rows/$itemId" });
  // It stays from row to row: a person judges one thing after the other.
  const [judged, setJudged] = useState<string | null>(null);
  const row = turns.find((one) => one.turn === turn);
  const params = { experimentId: experiment.experiment_id };
  return (
    <Stack>
      <PageTitle>{text("rowTitle", { item: itemId })}</PageTitle>
      <LabNavigation />
      <Group>
        <Anchor
          renderRoot={(props) => (
            <Link to="/lab/experiments/$experimentId" params={params} {...props} />
          )}
        >
          {experiment.name}
        </Anchor>
        <Anchor
          renderRoot={(props) => (
            <Link
              to="/lab/experiments/$experimentId/rows"
              params={params}
              search={rowsSearchOf(search)}
              {...props}
            />
          )}
        >
          {text("rows")}
        </Anchor>
        <Neighbours experimentId={experiment.experiment_id} itemId={itemId} />
      </Group>
      {turns.length > 1 && (
        <SegmentedControl
          aria-label={text("turns")}
          value={String(turn)}
          data={turns.map((one) => ({
            value: String(one.turn),
            label: text("turnNumber", { number: one.turn + 1 }),
          }))}
          onChange={(chosen) => {
            void navigate({ search: rowSearchOf({ ...search, turn: Number(chosen) }) });
          }}
        />
      )}
      {row === undefined ? (
        <ProblemAlert error={new Error(text("noSuchRow"))} />
      ) : (
        <>
          <RowCards experiment={experiment} row={row} />
          {mayAct && (
            <AnnotateCard
              key={`${itemId} ${row.repetition} ${row.turn}`}
              experiment={experiment}
              row={row}
              judged={judged}
              onJudge={setJudged}
            />
          )}
          <TriesCard experimentId={experiment.experiment_id} row={row} />
        </>
      )}
    </Stack>
  );
}

/** The way to the row before and the row after, in the list that the address names. */
function Neighbours({ experimentId, itemId }: { experimentId: string; itemId: string }) {
  const text = useText();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/experiments/$experimentId/rows/$itemId" });
  const { turn = 0, repetition = 1, ...within } = search;
  const list = useInfiniteQuery(rowsQuery(experimentId, rowsSearchOf(within)));
  const rows = list.data?.pages.flatMap((page) => page.items) ?? [];
  const index = rows.findIndex(
    (row) => row.item_id === itemId && row.turn === turn && row.repetition === repetition,
  );
  const before = index > 0 ? rows[index - 1] : undefined;
  const after = index >= 0 ? rows[index + 1] : undefined;
  const isLastRead = index >= 0 && after === undefined && list.hasNextPage;
  const go = (row: ResultRow | undefined) => () => {
    if (row === undefined) return;
    void navigate({
      params: { experimentId, itemId: row.item_id },
      search: rowSearchOf({ ...within, turn: row.turn, repetition: row.repetition }),
    });
  };
  const goOn = isLastRead
    ? () => {
        void list.fetchNextPage();
      }
    : go(after);
  usePageKeys([
    { key: "k", meaning: "rowBefore", act: go(before) },
    { key: "j", meaning: "rowAfter", act: goOn },
  ]);
  return (
    <Group gap="xs">
      <Button variant="default" size="xs" disabled={before === undefined} onClick={go(before)}>
        {text("rowBefore")} (k)
      </Button>
      <Button
        variant="default"
        size="xs"
        disabled={after === undefined && !isLastRead}
        onClick={goOn}
      >
        {text("rowAfter")} (j)
      </Button>
    </Group>
  );
}
