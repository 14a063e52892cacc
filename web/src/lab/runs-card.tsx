import { Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { nameOf, useText } from "../messages/text";
import { runsQuery } from "./experiment-query";
import { RunStatus } from "./run-status";
import { scoreText } from "./scores";
import type { Experiment } from "./types";

/** Every run of an experiment, with the scores as it left them. */
export function RunsCard({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const formats = useFormats();
  const runs = useQuery(runsQuery(experiment.experiment_id));
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("runs")}
      </Title>
      {runs.error && <ProblemAlert error={runs.error} />}
      {runs.data?.items.length === 0 && <Text c="dimmed">{text("noRuns")}</Text>}
      {runs.data && runs.data.items.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label={text("runs")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("run")}</Table.Th>
                <Table.Th>{text("mode")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th>{text("ended")}</Table.Th>
                <Table.Th>{text("scores")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {runs.data.items.map((run) => (
                <Table.Tr key={run.run_id}>
                  <Table.Td className="fact">{run.run_id}</Table.Td>
                  <Table.Td>{nameOf(text, `mode_${run.mode}`, run.mode)}</Table.Td>
                  <Table.Td>
                    <RunStatus status={run.status} />
                  </Table.Td>
                  <Table.Td>{run.ended_at === null ? "–" : formats.time(run.ended_at)}</Table.Td>
                  <Table.Td className="number">
                    {Object.entries(run.scores).map(([name, score]) => (
                      <Text size="sm" key={name}>
                        {name} {scoreText(score, formats.score)}
                      </Text>
                    ))}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}
