import { Alert, Anchor, Card, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { Facts } from "../app/facts";
import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { ColumnValue } from "./column-value";
import { DiffText } from "./diff-text";
import { outputText, referenceOf } from "./row-values";
import { textDiff } from "./text-diff";
import type { Experiment, ResultRow } from "./types";

interface RowCardsProps {
  experiment: Experiment;
  row: ResultRow;
}

/** What went in, what came out, and how it was judged. */
export function RowCards({ experiment, row }: RowCardsProps) {
  const text = useText();
  return (
    <>
      {row.error_code !== null && (
        <Alert color="red" variant="outline" title={row.error_code}>
          {row.error_message}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Columns title={text("input")} columns={row.input} datasetId={experiment.dataset_id} />
        <Columns title={text("output")} columns={row.output} datasetId={null} />
      </SimpleGrid>
      <Difference experiment={experiment} row={row} />
      <ScoresOfRow row={row} />
      <Measures row={row} />
    </>
  );
}

interface ColumnsProps {
  title: string;
  columns: Readonly<Record<string, unknown>>;
  datasetId: string | null;
}

function Columns({ title, columns, datasetId }: ColumnsProps) {
  const text = useText();
  const named = Object.entries(columns);
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {title}
      </Title>
      {named.length === 0 && <Text c="dimmed">{text("nothingThere")}</Text>}
      <Stack gap="xs">
        {named.map(([name, value]) => (
          <div key={name}>
            <Text size="xs" c="dimmed">
              {name}
            </Text>
            <ColumnValue name={name} value={value} datasetId={datasetId} />
          </div>
        ))}
      </Stack>
    </Card>
  );
}

/** From the reference to the output. */
function Difference({ experiment, row }: RowCardsProps) {
  const text = useText();
  const reference = referenceOf(experiment, row);
  const output = outputText(row);
  if (reference === null || output === "") return null;
  const pieces = textDiff(reference, output);
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("differenceFromReference")}
      </Title>
      {pieces === null ? (
        <Text c="dimmed">{text("tooLongToCompare")}</Text>
      ) : (
        <DiffText pieces={pieces} />
      )}
    </Card>
  );
}

function ScoresOfRow({ row }: { row: ResultRow }) {
  const text = useText();
  const formats = useFormats();
  const people = row.annotations.map((one) => ({
    name: one.name,
    by: one.annotator,
    score: one.score,
    label: one.label,
    reason: one.correction,
  }));
  const judged = Object.entries(row.scores).map(([name, cell]) => ({
    name,
    by: "",
    score: cell.score,
    label: cell.label,
    reason: cell.error_message ?? cell.reason,
  }));
  if (judged.length + people.length === 0) return null;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("scores")}
      </Title>
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label={text("scores")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("name")}</Table.Th>
              <Table.Th>{text("score")}</Table.Th>
              <Table.Th>{text("label")}</Table.Th>
              <Table.Th>{text("reason")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {[...judged, ...people].map((one) => (
              <Table.Tr key={`${one.name} ${one.by}`}>
                <Table.Td className="fact">
                  {one.name}
                  {one.by !== "" && ` · ${one.by}`}
                </Table.Td>
                <Table.Td className="number">
                  {one.score == null ? "–" : formats.score(one.score)}
                </Table.Td>
                <Table.Td className="fact">{one.label ?? "–"}</Table.Td>
                <Table.Td className="value">{one.reason ?? "–"}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

/** What the row took; a job of the live fleet is one click away. */
function Measures({ row }: { row: ResultRow }) {
  const text = useText();
  const formats = useFormats();
  const job = row.output["job_id"];
  return (
    <Facts
      rows={[
        [text("state"), text(`item_${row.status}`)],
        [text("latency"), row.latency_ms === null ? null : formats.milliseconds(row.latency_ms)],
        [text("tokens"), row.tokens === null ? null : formats.number(row.tokens)],
        [text("cost"), row.cost === null ? null : formats.score(row.cost)],
        [text("run"), row.run_id],
        ...(typeof job === "string"
          ? ([
              [
                text("job"),
                <Anchor
                  key="job"
                  size="sm"
                  renderRoot={(props) => (
                    <Link to="/jobs/$jobId" params={{ jobId: job }} {...props} />
                  )}
                >
                  {job}
                </Anchor>,
              ],
            ] as const)
          : []),
      ]}
    />
  );
}
