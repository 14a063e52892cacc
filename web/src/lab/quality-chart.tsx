import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import UPlot from "uplot";

import { chartAxis, timeAxis } from "../app/chart-axis";
import { useFormats } from "../app/formats";
import type { Quality } from "./quality";

const HEIGHT_PX = 180;
const INK = "#1c7ed6";
const BAND = "#1c7ed633";

interface QualityChartProps {
  quality: Quality;
  /** What the chart shows, for those who do not see it. */
  label: string;
}

/** One score in time: its mean as a line, its interval as a band. */
export function QualityChart({ quality, label }: QualityChartProps) {
  const { locale } = useFormats();
  const place = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize();
  const ref = useMergedRef(place, sized);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    if (place.current === null || width === 0) return;
    const time = timeAxis(scheme, locale);
    const axis = chartAxis(scheme);
    const bound = { stroke: "transparent", points: { show: false } };
    const drawn = new UPlot(
      {
        width,
        height: HEIGHT_PX,
        legend: { show: false },
        series: [{}, bound, bound, { stroke: INK, width: 2, points: { show: true } }],
        bands: [{ series: [2, 1], fill: BAND }],
        axes: [time, axis],
      },
      [[...quality.times], [...quality.lows], [...quality.highs], [...quality.means]],
      place.current,
    );
    return () => {
      drawn.destroy();
    };
  }, [quality, width, scheme, locale]);
  return <div ref={ref} role="img" aria-label={label} />;
}
