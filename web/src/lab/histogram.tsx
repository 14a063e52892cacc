import { Group, Text, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { filterText } from "./filter-text";
import type { Aggregate } from "./types";

interface HistogramProps {
  experimentId: string;
  name: string;
  field: string;
  bins: Aggregate["histogram"];
  format: (value: number) => string;
}

/** How values are spread; each bar leads to its rows. */
export function Histogram({ experimentId, name, field, bins, format }: HistogramProps) {
  const text = useText();
  const formats = useFormats();
  const most = Math.max(...bins.map((bin) => bin.count), 1);
  const first = bins[0];
  const last = bins[bins.length - 1];
  if (first === undefined || last === undefined) return null;
  return (
    <div>
      <ul className="histogram" aria-label={text("distributionOf", { name })}>
        {bins.map((bin) => {
          const range = `${format(bin.low)} – ${format(bin.high)}`;
          const label = text("barOf", { range, count: formats.number(bin.count) });
          // The last bin holds its upper end too.
          const upper = bin === last ? ("<=" as const) : ("<" as const);
          const filter = filterText({
            and: [
              { field, op: ">=", value: bin.low },
              { field, op: upper, value: bin.high },
            ],
          });
          if (bin.count === 0) return <li key={bin.low} />;
          return (
            <li key={bin.low}>
              <Tooltip label={label}>
                <Link
                  to="/lab/experiments/$experimentId/rows"
                  params={{ experimentId }}
                  search={{ filter }}
                  aria-label={label}
                >
                  <svg viewBox="0 0 10 100" preserveAspectRatio="none" aria-hidden="true">
                    <rect
                      x="0.5"
                      width="9"
                      y={100 - (100 * bin.count) / most}
                      height={(100 * bin.count) / most}
                    />
                  </svg>
                </Link>
              </Tooltip>
            </li>
          );
        })}
      </ul>
      <Group justify="space-between">
        <Text size="xs" c="dimmed" className="number">
          {format(first.low)}
        </Text>
        <Text size="xs" c="dimmed" className="number">
          {format(last.high)}
        </Text>
      </Group>
    </div>
  );
}
