import { Card, Stack, Table, Text, Title } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { IntervalBar } from "./interval-bar";
import type { Comparison } from "./types";

type ComparedRun = Comparison["others"][number];
type Figure = ComparedRun["scores"][string];

const MEASURES = ["latency_ms", "tokens", "cost", "failures"] as const;

interface ComparedScoresProps {
  baseline: string;
  run: ComparedRun;
}

/** One run against the baseline: each score with its difference, its interval and its p. */
export function ComparedScores({ baseline, run }: ComparedScoresProps) {
  const text = useText();
  const figures: [string, Figure][] = [
    ...Object.entries(run.scores),
    ...MEASURES.flatMap((name): [string, Figure][] => {
      const figure = run[name];
      return figure == null ? [] : [[name, figure]];
    }),
  ];
  return (
    <Card withBorder>
      <Title order={2} size="h4" className="fact">
        {text("comparedTitle", { run: run.name, baseline })}
      </Title>
      <Table.ScrollContainer minWidth={900}>
        <Table aria-label={text("comparedTitle", { run: run.name, baseline })}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("score")}</Table.Th>
              <Table.Th>{text("baseline")}</Table.Th>
              <Table.Th>{text("thisRun")}</Table.Th>
              <Table.Th>{text("difference")}</Table.Th>
              <Table.Th>{text("interval")}</Table.Th>
              <Table.Th>{text("pValue")}</Table.Th>
              <Table.Th>{text("winsLossesTies")}</Table.Th>
              <Table.Th>{text("finding")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {figures.map(([name, figure]) => (
              <FigureRow key={name} name={name} figure={figure} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Stack gap={4}>
        {figures.map(([name, figure]) => (
          <Text size="sm" key={name}>
            {name}: {figure.in_words}
          </Text>
        ))}
        {Object.entries(run.refused).map(([name, reasons]) => (
          <Text size="sm" key={name}>
            {text("notCompared", { name, reasons: reasons.join("; ") })}
          </Text>
        ))}
      </Stack>
    </Card>
  );
}

function FigureRow({ name, figure }: { name: string; figure: Figure }) {
  const text = useText();
  const formats = useFormats();
  const number = (value: number | null) => (value === null ? "–" : formats.score(value));
  const [low, high] = figure.ci95 ?? [];
  return (
    <Table.Tr>
      <Table.Td className="fact">{name}</Table.Td>
      <Table.Td className="number">{number(figure.baseline)}</Table.Td>
      <Table.Td className="number">{number(figure.other)}</Table.Td>
      <Table.Td className="number">
        {figure.delta === null ? "–" : signed(figure.delta, formats.score)}
      </Table.Td>
      <Table.Td className="number">
        {low === undefined || high === undefined ? (
          "–"
        ) : (
          <>
            {signed(low, formats.score)} – {signed(high, formats.score)}
            <IntervalBar
              delta={figure.delta ?? 0}
              interval={[low, high]}
              finding={figure.finding}
            />
          </>
        )}
      </Table.Td>
      <Table.Td className="number">{number(figure.p)}</Table.Td>
      <Table.Td className="number">
        {formats.number(figure.wins)} / {formats.number(figure.losses)} /{" "}
        {formats.number(figure.ties)}
      </Table.Td>
      <Table.Td>{text(`finding_${figure.finding}`)}</Table.Td>
    </Table.Tr>
  );
}

export function signed(value: number, format: (value: number) => string): string {
  return value > 0 ? `+${format(value)}` : format(value);
}
