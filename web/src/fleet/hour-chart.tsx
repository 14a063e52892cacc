import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import UPlot from "uplot";

import { chartAxis, timeAxis } from "../app/chart-axis";
import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { hourSum, minuteTimes, type MinuteSeries } from "./hour";

const HEIGHT_PX = 160;
const NO_POINTS = { show: false };
// The library declares its sides as an enum that exists for the compiler only.
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
const RIGHT = 1 as UPlot.Axis.Side;

interface HourChartProps {
  beganAt: string;
  series: MinuteSeries;
}

/** The minutes of the last hour: jobs, failures and refusals, and how long jobs took. */
export function HourChart({ beganAt, series }: HourChartProps) {
  const text = useText();
  const formats = useFormats();
  const { locale } = formats;
  const place = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize();
  const ref = useMergedRef(place, sized);
  const scheme = useComputedColorScheme("light");
  const [jobs, failed, refused, mean] = [
    text("jobsAMinute"),
    text("failures"),
    text("refusedJobs"),
    text("meanTime"),
  ];
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
          { label: jobs, stroke: "#1c7ed6", fill: "#1c7ed61a", width: 2, points: NO_POINTS },
          { label: refused, stroke: "#f08c00", width: 3, points: NO_POINTS },
          // Above the refused ones and dashed: both are to be seen where they are as many.
          { label: failed, stroke: "#e03131", width: 2, dash: [6, 4], points: NO_POINTS },
          { label: mean, stroke: "#868e96", width: 1, scale: "ms", spanGaps: false },
        ],
        axes: [
          time,
          chartAxis(scheme, jobs),
          {
            ...chartAxis(scheme, `${mean} (ms)`),
            side: RIGHT,
            scale: "ms",
            grid: { show: false },
            size: 60,
          },
        ],
        scales: { y: { range: fromZero }, ms: { range: fromZero } },
      },
      [
        minuteTimes(beganAt),
        [...series.jobs],
        [...series.refused],
        [...series.failed],
        [...series.mean_ms],
      ],
      place.current,
    );
    return () => {
      drawn.destroy();
    };
  }, [width, scheme, locale, jobs, failed, refused, mean, beganAt, series]);
  const sum = hourSum(series);
  const summary = text("hourSummary", {
    jobs: formats.number(sum.jobs),
    failed: formats.number(sum.failed),
    refused: formats.number(sum.refused),
    mean: sum.meanMs === null ? "–" : formats.milliseconds(sum.meanMs),
  });
  return (
    <>
      <p className="chart-summary">{summary}</p>
      <div ref={ref} role="img" aria-label={summary} />
    </>
  );
}

function fromZero(_: UPlot, __: number, most: number): [number, number] {
  return [0, Math.max(1, most)];
}
