import { Card, Stack, Table, Text, Title } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { inputText, outputText } from "./row-values";
import type { Rehearsal } from "./types";

type Range = NonNullable<Rehearsal["estimate"]["cost"]>;

/** What a try on a few rows came to, and what the whole run will take. */
export function DryRun({ rehearsal }: { rehearsal: Rehearsal }) {
  const text = useText();
  const formats = useFormats();
  const { estimate, rows } = rehearsal;
  const range = (given: Range | null, format: (value: number) => string) => {
    if (given === null) return "–";
    const high = given.high === null ? "?" : format(given.high);
    return text("rangeOf", { likely: format(given.likely), low: format(given.low), high });
  };
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("dryRun")}
      </Title>
      <Stack gap="xs">
        <Text>
          {text("estimateOf", {
            items: formats.number(estimate.items),
            sampled: formats.number(estimate.sampled),
            failed: formats.number(estimate.failed),
          })}
        </Text>
        <Table aria-label={text("estimate")} maw={520}>
          <Table.Tbody>
            {(
              [
                ["time", range(estimate.seconds, formats.seconds)],
                ["calls", range(estimate.calls, formats.number)],
                ["tokens", range(estimate.tokens, formats.number)],
                ["cost", range(estimate.cost, formats.score)],
              ] as const
            ).map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th scope="row">{text(name)}</Table.Th>
                <Table.Td className="number">{value}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        <Table.ScrollContainer minWidth={560}>
          <Table layout="fixed" aria-label={text("rows")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("input")}</Table.Th>
                <Table.Th>{text("output")}</Table.Th>
                <Table.Th>{text("scores")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={`${row.item_id} ${row.repetition} ${row.turn}`}>
                  <Table.Td className="value">{inputText(row)}</Table.Td>
                  <Table.Td className="value">
                    {row.error_code === null
                      ? outputText(row)
                      : `${row.error_code}: ${row.error_message ?? ""}`}
                  </Table.Td>
                  <Table.Td className="number">
                    {Object.entries(row.scores).map(([name, cell]) => (
                      <Text size="sm" key={name}>
                        {name} {cell.score == null ? "–" : formats.score(cell.score)}
                      </Text>
                    ))}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Stack>
    </Card>
  );
}
