import { Button, Card, Group, NumberInput, Progress, Stack, Table, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { experimentKey } from "./experiment-query";
import type { LiveRun } from "./live-experiment";
import { RowLink } from "./row-link";
import { inputText, outputText } from "./row-values";
import type { Experiment } from "./types";

const MOST_AT_ONCE = 10_000;

/** A run under way: how fast, how long still, the rows as they come, and how many at once. */
export function RunningCard({ experiment, run }: { experiment: Experiment; run: LiveRun }) {
  const text = useText();
  const formats = useFormats();
  const mayAct = useMayAct("experiments");
  const { eta_seconds, progress } = experiment;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("running")}
      </Title>
      <Stack>
        <Progress value={100 * progress} aria-label={text("progressOf", { name: experiment.name })} />
        <Group gap="xl">
          <Text className="number">{formats.percent(progress)}</Text>
          <Text className="number">
            {run.itemsPerSecond === null
              ? text("rateUnknown")
              : text("rate", { rate: formats.score(run.itemsPerSecond) })}
          </Text>
          <Text className="number">
            {eta_seconds === null
              ? text("etaUnknown")
              : text("eta", { time: formats.seconds(eta_seconds) })}
          </Text>
        </Group>
        {mayAct && <Concurrency experiment={experiment} />}
        <NewestRows experiment={experiment} run={run} />
      </Stack>
    </Card>
  );
}

/** How many items are worked on at once, changed while the run goes on. */
function Concurrency({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const id = experiment.experiment_id;
  const [wanted, setWanted] = useState<number | string>(experiment.concurrency ?? "");
  const changing = useMutation({
    mutationFn: () =>
      answerOf(
        api.PATCH("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: id } },
          body: { concurrency: typeof wanted === "number" ? wanted : null },
        }),
      ),
    onSuccess: (changed) => {
      queryClient.setQueryData(experimentKey(id), changed);
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        changing.mutate();
      }}
    >
      <Group align="end">
        <NumberInput
          label={text("concurrency")}
          placeholder={text("asTheServerHasIt")}
          min={1}
          max={MOST_AT_ONCE}
          allowDecimal={false}
          hideControls
          value={wanted}
          onChange={setWanted}
        />
        <Button type="submit" variant="default" loading={changing.isPending}>
          {text("apply")}
        </Button>
        {changing.isSuccess && <Text role="status">{text("applied")}</Text>}
      </Group>
      {changing.error && <ProblemAlert error={changing.error} />}
    </form>
  );
}

function NewestRows({ experiment, run }: { experiment: Experiment; run: LiveRun }) {
  const text = useText();
  const formats = useFormats();
  if (run.rows.length === 0) return <Text c="dimmed">{text("noRowsYet")}</Text>;
  return (
    <Table.ScrollContainer minWidth={600}>
      <Table layout="fixed" aria-label={text("newestRows")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{text("item")}</Table.Th>
            <Table.Th>{text("input")}</Table.Th>
            <Table.Th>{text("output")}</Table.Th>
            <Table.Th>{text("scores")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {run.rows.map((row) => (
            <Table.Tr key={`${row.item_id} ${row.repetition} ${row.turn} ${row.run_id}`}>
              <Table.Td className="cut">
                <RowLink experimentId={experiment.experiment_id} row={row} />
              </Table.Td>
              <Table.Td className="cut">{inputText(row)}</Table.Td>
              <Table.Td className="cut">{row.error_code ?? outputText(row)}</Table.Td>
              <Table.Td className="cut number">
                {Object.entries(row.scores)
                  .map(([name, cell]) => `${name} ${cell.score == null ? "–" : formats.score(cell.score)}`)
                  .join(" · ")}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
