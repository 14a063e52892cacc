import { Anchor, Card, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { filterText } from "./filter-text";
import type { Aggregates, Experiment } from "./types";

const NO_FAILURES: NonNullable<Aggregates["failures"]> = { items: 0, share: 0, causes: [] };

interface FailuresCardProps {
  experiment: Experiment;
  aggregates: Aggregates;
}

/** Why items have not all of their scores; a cause leads to its rows. */
export function FailuresCard({ experiment, aggregates }: FailuresCardProps) {
  const text = useText();
  const formats = useFormats();
  const { failures = NO_FAILURES } = aggregates;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("failures")}
      </Title>
      {failures.items === 0 ? (
        <Text c="dimmed">{text("noFailures")}</Text>
      ) : (
        <>
          <Text size="sm">
            {text("failuresShare", {
              items: formats.number(failures.items),
              share: formats.percent(failures.share),
            })}
          </Text>
          <Table.ScrollContainer minWidth={480}>
            <Table aria-label={text("failures")}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{text("cause")}</Table.Th>
                  <Table.Th>{text("items")}</Table.Th>
                  <Table.Th>{text("oneOfThem")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {failures.causes.map((cause) => (
                  <Table.Tr key={cause.code}>
                    <Table.Td>
                      <Anchor
                        size="sm"
                        renderRoot={(props) => (
                          <Link
                            to="/lab/experiments/$experimentId/rows"
                            params={{ experimentId: experiment.experiment_id }}
                            search={{
                              filter: filterText({ field: "error_code", op: "=", value: cause.code }),
                            }}
                            {...props}
                          />
                        )}
                      >
                        {cause.code}
                      </Anchor>
                    </Table.Td>
                    <Table.Td className="number">{formats.number(cause.count)}</Table.Td>
                    <Table.Td className="fact">{cause.sample ?? "–"}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </Card>
  );
}
