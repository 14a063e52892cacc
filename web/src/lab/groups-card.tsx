import { Card, NativeSelect, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { firstRowsQuery } from "./rows-query";
import { scoreText } from "./scores";
import type { Aggregates, Experiment, ResultRow } from "./types";

interface GroupsCardProps {
  experiment: Experiment;
  aggregates: Aggregates;
  /** The column that the address names. */
  group: string | undefined;
  newestRow: ResultRow | undefined;
}

/** The scores by the values of a column of the input. */
export function GroupsCard({ experiment, aggregates, group, newestRow }: GroupsCardProps) {
  const text = useText();
  const formats = useFormats();
  const navigate = useNavigate({ from: "/lab/experiments/$experimentId" });
  const first = useQuery(firstRowsQuery(experiment.experiment_id));
  const columns = Object.keys(first.data?.[0]?.input ?? newestRow?.input ?? {});
  const names = Object.keys(aggregates.scores);
  const moreGroups = aggregates.more_groups ?? 0;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("byGroup")}
      </Title>
      <NativeSelect
        label={text("groupBy")}
        maw={320}
        value={group ?? ""}
        data={[
          { value: "", label: "–" },
          ...[...new Set([...columns, ...(group === undefined ? [] : [group])])],
        ]}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          void navigate({ search: chosen === "" ? {} : { group: chosen }, replace: true });
        }}
      />
      {aggregates.groups && (
        <Table.ScrollContainer minWidth={480}>
          <Table aria-label={text("byGroup")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{group}</Table.Th>
                <Table.Th>{text("rows")}</Table.Th>
                {names.map((name) => (
                  <Table.Th key={name}>{name}</Table.Th>
                ))}
                <Table.Th>{text("failures")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {aggregates.groups.map((one) => (
                <Table.Tr key={String(one.value)}>
                  <Table.Td className="fact">{one.value ?? text("noValue")}</Table.Td>
                  <Table.Td className="number">{formats.number(one.rows)}</Table.Td>
                  {names.map((name) => {
                    const score = one.aggregates.scores[name];
                    return (
                      <Table.Td key={name} className="number">
                        {scoreText(score && { mean: score.mean, ci95: score.ci95 ?? null }, formats.score)}
                      </Table.Td>
                    );
                  })}
                  <Table.Td className="number">
                    {formats.number(one.aggregates.failures?.items ?? 0)}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {moreGroups > 0 && (
        <Text size="sm" c="dimmed">
          {text("moreGroups", { count: moreGroups })}
        </Text>
      )}
    </Card>
  );
}
