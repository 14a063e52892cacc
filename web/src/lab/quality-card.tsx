import { Card, Group, NativeSelect, SimpleGrid, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { useText } from "../messages/text";
import { hoursQuery, runsQuery } from "./experiment-query";
import { qualityOf, runMoments } from "./quality";
import { QualityChart } from "./quality-chart";
import type { Experiment } from "./types";

type Unit = "run" | "hour";

/** Every score over time, run by run or hour by hour: whether quality holds. */
export function QualityCard({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const id = experiment.experiment_id;
  const runs = useQuery(runsQuery(id));
  const isOpenEnded = runs.data?.items.some(({ mode }) => mode === "append") ?? false;
  const hours = useQuery({ ...hoursQuery(id), enabled: isOpenEnded });
  const [chosen, setChosen] = useState<Unit | null>(null);
  const byRun = useMemo(() => qualityOf(runMoments(runs.data?.items ?? [])), [runs.data]);
  const byHour = useMemo(
    () => qualityOf((hours.data?.items ?? []).map(({ began_at, scores }) => ({ at: began_at, scores }))),
    [hours.data],
  );
  const unit = chosen ?? (byHour.length > 0 && byRun.length === 0 ? "hour" : "run");
  if (byRun.length === 0 && byHour.length === 0) return null;
  const shown = unit === "hour" ? byHour : byRun;
  return (
    <Card withBorder>
      <Group justify="space-between" align="end">
        <Title order={2} size="h4">
          {text("quality")}
        </Title>
        {isOpenEnded && (
          <NativeSelect
            label={text("by")}
            value={unit}
            data={[
              { value: "run", label: text("eachRun") },
              { value: "hour", label: text("eachHour") },
            ]}
            onChange={(event) => {
              setChosen(event.currentTarget.value === "hour" ? "hour" : "run");
            }}
          />
        )}
      </Group>
      <Text size="sm" c="dimmed">
        {text(unit === "hour" ? "qualityByHourHint" : "qualityByRunHint")}
      </Text>
      {shown.length === 0 && <Text mt="xs">{text("qualityTooYoung")}</Text>}
      <SimpleGrid mt="xs" cols={{ base: 1, md: 2, xl: 3 }}>
        {shown.map((quality) => (
          <section key={quality.name}>
            <Title order={3} size="h5" className="fact">
              {quality.name}
            </Title>
            <QualityChart
              quality={quality}
              label={text(unit === "hour" ? "qualityByHour" : "qualityOverTime", {
                name: quality.name,
              })}
            />
          </section>
        ))}
      </SimpleGrid>
    </Card>
  );
}
