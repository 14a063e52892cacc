import "uplot/dist/uPlot.min.css";

import { Card, Title, useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import UPlot from "uplot";

import { chartAxis, timeAxis } from "../app/chart-axis";
import { useFormats } from "../app/formats";
import type { Overview } from "../live/fleet-state";
import { useText } from "../messages/text";

const HEIGHT_PX = 180;
const POINTS_KEPT = 1200;
const NO_POINTS = { show: false };
// The library declares its sides as an enum that exists for the compiler only.
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
const RIGHT = 1 as UPlot.Axis.Side;

/** Jobs a second and slots in use, since the page was opened. */
export function ActivityChart({ overview }: { overview: Overview }) {
  const text = useText();
  const { locale } = useFormats();
  const place = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize();
  const ref = useMergedRef(place, sized);
  const scheme = useComputedColorScheme("light");
  const chart = useRef<UPlot | null>(null);
  const points = useRef<[number[], number[], number[]]>([[], [], []]);
  const rate = text("jobsPerSecond");
  const used = text("slotsUsed");

  useEffect(() => {
    if (place.current === null || width === 0) return;
    const time = timeAxis(scheme, locale);
    const drawn = new UPlot(
      {
        width,
        height: HEIGHT_PX,
        legend: { live: false },
        series: [
          {},
          { label: rate, stroke: "#1c7ed6", fill: "#1c7ed61a", width: 2, points: NO_POINTS },
          { label: used, stroke: "#f08c00", width: 2, scale: "slots", points: NO_POINTS },
        ],
        axes: [
          time,
          chartAxis(scheme, rate),
          { ...chartAxis(scheme, used), side: RIGHT, scale: "slots", grid: { show: false } },
        ],
        scales: { y: { range: fromZero }, slots: { range: fromZero } },
      },
      points.current,
      place.current,
    );
    chart.current = drawn;
    return () => {
      chart.current = null;
      drawn.destroy();
    };
  }, [width, scheme, locale, rate, used]);

  useEffect(() => {
    const [times, rates, slots] = points.current;
    times.push(Date.parse(overview.at) / 1000);
    rates.push(overview.jobs_per_second);
    slots.push(overview.slots_used);
    for (const series of points.current) series.splice(0, series.length - POINTS_KEPT);
    chart.current?.setData(points.current);
  }, [overview]);

  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("activity")}
      </Title>
      <div ref={ref} role="img" aria-label={text("activity")} />
    </Card>
  );
}

function fromZero(_: UPlot, __: number, most: number): [number, number] {
  return [0, Math.max(1, most)];
}
