import { Card, Group, NativeSelect, SimpleGrid, Stack, Text, Title } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { signed } from "./compared-scores";
import { DiffText } from "./diff-text";
import { RowLink } from "./row-link";
import { resultOf } from "./compared-result";
import { inputText, outputText } from "./row-values";
import type { Comparison } from "./types";

type ComparedRow = NonNullable<Comparison["rows"]>[number];
type Answer = ComparedRow["baseline"];

interface ComparedRowsProps {
  comparison: Comparison;
  rows: readonly ComparedRow[];
  onSort: (name: string) => void;
}

const RESULTS = {
  loss: "biggestLosses",
  tie: "ties",
  win: "wins",
  unknown: "notComparable",
} as const;

/** Rows of every run side by side, the biggest losses first. */
export function ComparedRows({ comparison, rows, onSort }: ComparedRowsProps) {
  const text = useText();
  const names = [...new Set(comparison.others.flatMap((run) => Object.keys(run.scores)))];
  const sortedBy = comparison.sorted_by ?? "";
  if (rows.length === 0) return <Text c="dimmed">{text("noSharedRows")}</Text>;
  return (
    <Card withBorder>
      <Group justify="space-between" align="end">
        <Title order={2} size="h4">
          {text("rowsSideBySide")}
        </Title>
        {names.length > 1 && (
          <NativeSelect
            label={text("by")}
            data={names}
            value={sortedBy}
            onChange={(event) => {
              onSort(event.currentTarget.value);
            }}
          />
        )}
      </Group>
      <Stack gap="md">
        {rows.map((row, index) => (
          <div key={`${row.item_id} ${row.turn}`} className="compared-row">
            {resultOf(row) !== resultOf(rows[index - 1]) && (
              <Title order={3} size="h5">
                {text(RESULTS[resultOf(row) ?? "unknown"])}
              </Title>
            )}
            <Group gap="xs">
              <RowLink
                experimentId={comparison.baseline.experiment_id}
                row={{ item_id: row.item_id, turn: row.turn, repetition: 1 }}
              />
              <Text size="sm" className="fact">
                {inputText(row)}
              </Text>
            </Group>
            <SimpleGrid cols={{ base: 1, sm: 1 + comparison.others.length }}>
              <AnswerShown title={comparison.baseline.name} answer={row.baseline} by={sortedBy} />
              {row.others.map((answer, index) => {
                const run = comparison.others[index];
                if (run === undefined) return null;
                return (
                  <AnswerShown
                    key={run.experiment_id}
                    title={run.name}
                    answer={answer}
                    by={sortedBy}
                  />
                );
              })}
            </SimpleGrid>
          </div>
        ))}
      </Stack>
    </Card>
  );
}

interface AnswerShownProps {
  title: string;
  answer: Answer | null;
  by: string;
}

function AnswerShown({ title, answer, by }: AnswerShownProps) {
  const text = useText();
  const formats = useFormats();
  const score = answer?.scores[by];
  return (
    <div>
      <Text size="xs" c="dimmed" className="fact number">
        {title}
        {typeof score === "number" && ` · ${by} ${formats.score(score)}`}
        {answer?.gain != null && ` (${signed(answer.gain, formats.score)})`}
      </Text>
      {answer === null && <Text size="sm">{text("notInThisRun")}</Text>}
      {answer?.diff != null && <DiffText pieces={answer.diff} />}
      {answer !== null && answer.diff == null && (
        <Text size="sm" className="value">
          {answer.error_code ?? outputText(answer)}
        </Text>
      )}
    </div>
  );
}
