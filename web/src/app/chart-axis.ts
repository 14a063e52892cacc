const FONT = '12px "Inter Variable", system-ui, sans-serif';
const LABEL = { labelSize: 18, labelGap: 0, labelFont: FONT };

/** An axis of a chart in the light or the dark theme; it may say what it measures. */
export function chartAxis(scheme: "light" | "dark", label?: string) {
  const ink = scheme === "dark" ? "#a6b0bc" : "#58616b";
  return {
    stroke: ink,
    font: FONT,
    grid: { stroke: `${ink}26`, width: 1 },
    ticks: { stroke: `${ink}44`, width: 1 },
    ...(label !== undefined && { label, ...LABEL }),
  };
}

const [MINUTE, HOUR, DAY] = [60, 3_600, 86_400] as const;
/** Seconds between ticks: no less than one, so that no two of them say the same. */
const STEPS = [
  ...[1, 5, 10, 30],
  ...[1, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 30].map((count) => count * DAY),
];

/** The axis of time: in the reader's language and zone, the day with the hours of another one. */
export function timeAxis(scheme: "light" | "dark", locale: string) {
  const at = timeTicks(locale);
  return { ...chartAxis(scheme), incrs: STEPS, values: (_: unknown, times: number[]) => at(times) };
}

/** What stands at the ticks of a time axis, whose times are in seconds. */
export function timeTicks(locale: string, timeZone?: string): (times: readonly number[]) => string[] {
  const zone = timeZone === undefined ? {} : { timeZone };
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...zone } as const;
  const ofDay = new Intl.DateTimeFormat(locale, clock);
  const ofSecond = new Intl.DateTimeFormat(locale, { ...clock, second: "2-digit" });
  const day = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", ...zone });
  return (times) => {
    const [first = 0, second = first] = times;
    const step = second - first;
    return times.map((seconds, index) => {
      const at = new Date(seconds * 1000);
      if (step >= DAY) return day.format(at);
      const time = (step > 0 && step < MINUTE ? ofSecond : ofDay).format(at);
      const before = times[index - 1];
      const isNewDay = before !== undefined && day.format(new Date(before * 1000)) !== day.format(at);
      return isNewDay ? `${time}\n${day.format(at)}` : time;
    });
  };
}
