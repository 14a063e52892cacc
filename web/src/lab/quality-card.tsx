import "uplot/dist/uPlot.min.css";

import { Card, Table, Text, Title, useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import UPlot from "uplot";

import { answerOf, api } from "../api/client";
import { chartAxis } from "../app/chart-axis";
import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { runsKey } from "./experiment-query";
import { qualityOf, type Quality } from "./quality";
import { RunStatus } from "./run-status";
import { scoreText } from "./scores";
import type { Experiment } from "./types";

const HEIGHT_PX = 200;
const COLORS = ["#1c7ed6", "#f08c00", "#2f9e44", "#ae3ec9", "#e03131", "#0c8599"] as const;

/** The scores of every run in time: whether quality holds. */
export function QualityCard({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const formats = useFormats();
  const id = experiment.experiment_id;
  const runs = useQuery({
    queryKey: runsKey(id),
    queryFn: () =>
      answerOf(
        api.GET("/api/v1/experiments/{experiment_id}/runs", {
          params: { path: { experiment_id: id } },
        }),
      ),
  });
  const quality = runs.data ? qualityOf(runs.data.items) : null;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("runs")}
      </Title>
      {runs.error && <ProblemAlert error={runs.error} />}
      {runs.data?.items.length === 0 && <Text c="dimmed">{text("noRuns")}</Text>}
      {quality !== null && quality.times.length > 1 && <QualityChart quality={quality} />}
      {runs.data && runs.data.items.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label={text("runs")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("run")}</Table.Th>
                <Table.Th>{text("mode")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th>{text("ended")}</Table.Th>
                <Table.Th>{text("scores")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {runs.data.items.map((run) => (
                <Table.Tr key={run.run_id}>
                  <Table.Td className="fact">{run.run_id}</Table.Td>
                  <Table.Td>{run.mode}</Table.Td>
                  <Table.Td>
                    <RunStatus status={run.status} />
                  </Table.Td>
                  <Table.Td>{run.ended_at === null ? "–" : formats.time(run.ended_at)}</Table.Td>
                  <Table.Td className="number">
                    {Object.entries(run.scores).map(([name, score]) => (
                      <Text size="sm" key={name}>
                        {name} {scoreText(score, formats.score)}
                      </Text>
                    ))}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}

/** One line a score; where the numbers stand, the table below says. */
function QualityChart({ quality }: { quality: Quality }) {
  const text = useText();
  const place = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize();
  const ref = useMergedRef(place, sized);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    if (place.current === null || width === 0) return;
    const axis = chartAxis(scheme);
    const drawn = new UPlot(
      {
        width,
        height: HEIGHT_PX,
        series: [
          {},
          ...quality.scores.map(({ name }, index) => ({
            label: name,
            stroke: COLORS[index % COLORS.length] ?? axis.stroke,
            width: 2,
            points: { show: true },
            spanGaps: true,
          })),
        ],
        axes: [axis, axis],
      },
      [[...quality.times], ...quality.scores.map(({ means }) => [...means])],
      place.current,
    );
    return () => {
      drawn.destroy();
    };
  }, [quality, width, scheme]);
  return <div ref={ref} role="img" aria-label={text("qualityOverTime")} />;
}
