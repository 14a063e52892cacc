import { Card, Table, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { nameOf, useText } from "../messages/text";
import type { ResultRow } from "./types";

/** Every try of the row, in every run: what it took, and what went wrong. */
export function TriesCard({ experimentId, row }: { experimentId: string; row: ResultRow }) {
  const text = useText();
  const formats = useFormats();
  const { item_id, repetition, turn, run_id } = row;
  const tries = useQuery({
    queryKey: ["tries", experimentId, item_id, repetition, run_id],
    queryFn: () =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/items/{item_id}/tries", {
          params: { path: { experiment_id: experimentId, item_id }, query: { repetition } },
        }),
      ),
  });
  const shown = tries.data?.items.filter((one) => one.turn === turn) ?? [];
  if (tries.error) return <ProblemAlert error={tries.error} />;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("attempts")}
      </Title>
      <Table.ScrollContainer minWidth={560}>
        <Table aria-label={text("attempts")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("run")}</Table.Th>
              <Table.Th>{text("tryNumber")}</Table.Th>
              <Table.Th>{text("state")}</Table.Th>
              <Table.Th>{text("latency")}</Table.Th>
              <Table.Th>{text("ended")}</Table.Th>
              <Table.Th>{text("error")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((one) => (
              <Table.Tr key={`${one.run_id} ${one.number}`}>
                <Table.Td className="fact">
                  {one.run_id} ({nameOf(text, `mode_${one.mode}`, one.mode)})
                </Table.Td>
                <Table.Td className="number">{one.number}</Table.Td>
                <Table.Td>{nameOf(text, `item_${one.status}`, one.status)}</Table.Td>
                <Table.Td className="number">
                  {one.latency_ms === null ? "–" : formats.milliseconds(one.latency_ms)}
                </Table.Td>
                <Table.Td>{formats.time(one.at)}</Table.Td>
                <Table.Td className="value">
                  {one.error_code === null ? "–" : `${one.error_code}: ${one.error_message ?? ""}`}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
