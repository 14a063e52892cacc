import { Badge, Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { Histogram } from "./histogram";
import { OutcomesLine } from "./outcomes-line";
import { scoreText } from "./scores";
import { isRunning, type Aggregate, type Aggregates, type Experiment } from "./types";

interface ScoresCardProps {
  experiment: Experiment;
  aggregates: Aggregates;
}

/** Every score with its interval and its distribution, and what the target took. */
export function ScoresCard({ experiment, aggregates }: ScoresCardProps) {
  const text = useText();
  const formats = useFormats();
  const scores = Object.entries(aggregates.scores);
  return (
    <Card withBorder>
      <Group justify="space-between">
        <Title order={2} size="h4">
          {text("scores")}
        </Title>
        {isRunning(experiment) && (
          <Badge variant="outline" color="gray">
            {text("soFar")}
          </Badge>
        )}
      </Group>
      {scores.length === 0 && <Text c="dimmed">{text("noScores")}</Text>}
      <SimpleGrid mt="xs" cols={{ base: 1, md: 2, xl: 3 }}>
        {scores.map(([name, score]) => (
          <Score
            key={name}
            experimentId={experiment.experiment_id}
            name={name}
            field={`score.${name}`}
            aggregate={score}
            format={formats.score}
          />
        ))}
        {aggregates.latency_ms.count > 0 && (
          <Score
            experimentId={experiment.experiment_id}
            name={text("latency")}
            field="latency_ms"
            aggregate={aggregates.latency_ms}
            format={formats.milliseconds}
          />
        )}
      </SimpleGrid>
    </Card>
  );
}

interface ScoreProps {
  experimentId: string;
  name: string;
  /** What rows are filtered by to find those of a bar. */
  field: string;
  aggregate: Aggregate;
  format: (value: number) => string;
}

function Score({ experimentId, name, field, aggregate, format }: ScoreProps) {
  const text = useText();
  const formats = useFormats();
  const { corpus, pass_rate, outcomes } = aggregate;
  const number = (value: number | null) => (value === null ? "–" : format(value));
  return (
    <Stack gap={4}>
      <Title order={3} size="h5" className="fact">
        {name}
      </Title>
      <Text size="xl" className="number">
        {scoreText({ mean: aggregate.mean, ci95: aggregate.ci95 ?? null }, format)}
      </Text>
      <Text size="sm" c="dimmed">
        {text("meanWithInterval", { count: formats.number(aggregate.count) })}
      </Text>
      {corpus != null && <Text size="sm">{text("corpus", { score: formats.score(corpus) })}</Text>}
      {pass_rate != null && (
        <Text size="sm">{text("passRate", { share: formats.percent(pass_rate) })}</Text>
      )}
      <Text size="sm" className="number">
        {text("percentiles", {
          p50: number(aggregate.p50),
          p90: number(aggregate.p90),
          p99: number(aggregate.p99),
        })}
      </Text>
      {outcomes && <OutcomesLine outcomes={outcomes} />}
      <Histogram
        experimentId={experimentId}
        name={name}
        field={field}
        bins={aggregate.histogram}
        format={format}
      />
    </Stack>
  );
}
