import { Anchor, Group, Progress, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { RunStatus } from "./run-status";
import { scoreText } from "./scores";
import type { Experiment } from "./types";

/** Experiments as rows: state, progress, scores. */
export function ExperimentTable({ rows }: { rows: readonly Experiment[] }) {
  const text = useText();
  const formats = useFormats();
  return (
    <Table.ScrollContainer minWidth={760}>
      <Table aria-label={text("experiments")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{text("name")}</Table.Th>
            <Table.Th>{text("state")}</Table.Th>
            <Table.Th w={180}>{text("progress")}</Table.Th>
            <Table.Th>{text("scores")}</Table.Th>
            <Table.Th>{text("started")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((experiment) => (
            <Table.Tr key={experiment.experiment_id}>
              <Table.Td className="fact">
                <Anchor
                  size="sm"
                  renderRoot={(props) => (
                    <Link
                      to="/lab/experiments/$experimentId"
                      params={{ experimentId: experiment.experiment_id }}
                      {...props}
                    />
                  )}
                >
                  {experiment.name}
                </Anchor>
              </Table.Td>
              <Table.Td>
                <RunStatus status={experiment.status} />
              </Table.Td>
              <Table.Td>
                <ProgressCell experiment={experiment} />
              </Table.Td>
              <Table.Td className="number">
                {Object.entries(experiment.scores).map(([name, score]) => (
                  <Text size="sm" key={name}>
                    {name} {scoreText(score, formats.score)}
                  </Text>
                ))}
              </Table.Td>
              <Table.Td>
                {experiment.started_at === null ? "–" : formats.time(experiment.started_at)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function ProgressCell({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const formats = useFormats();
  const { stats } = experiment;
  return (
    <>
      <Group justify="space-between" wrap="nowrap">
        <Text size="xs" className="number">
          {formats.percent(experiment.progress)}
        </Text>
        <Text size="xs" className="number">
          {formats.number(stats.success)} / {formats.number(experiment.items)}
          {stats.fail > 0 && ` · ${text("failedCount", { count: formats.number(stats.fail) })}`}
        </Text>
      </Group>
      <Progress
        value={100 * experiment.progress}
        color={stats.fail > 0 ? "orange" : "blue"}
        aria-label={text("progressOf", { name: experiment.name })}
      />
    </>
  );
}
