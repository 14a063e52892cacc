interface IntervalBarProps {
  delta: number;
  interval: readonly [number, number];
  finding: string;
}

const COLORS: Readonly<Record<string, string>> = {
  better: "var(--mantine-color-green-6)",
  worse: "var(--mantine-color-red-6)",
};

/** A difference and its interval around zero; the numbers stand beside it. */
export function IntervalBar({ delta, interval: [low, high], finding }: IntervalBarProps) {
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const at = (value: number) => 50 + (48 * value) / reach;
  const color = COLORS[finding] ?? "var(--mantine-color-gray-6)";
  return (
    <svg className="interval" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <line x1="50" x2="50" y1="0" y2="10" stroke="currentColor" strokeWidth="0.5" />
      <rect x={at(low)} width={Math.max(at(high) - at(low), 0.5)} y="4" height="2" fill={color} />
      <rect x={at(delta) - 0.75} width="1.5" y="1" height="8" fill={color} />
    </svg>
  );
}
