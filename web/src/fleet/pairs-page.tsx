import { Alert, Anchor, Box, Group, Stack, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import type { PairRow } from "../live/fleet-state";
import { useArePairsCut, useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { PAIR_HEALTHS, pairHealth, pairMatrix } from "./pair-matrix";

/** Which language pairs the fleet serves, with how much room; a pair leads to its nodes. */
export function PairsPage() {
  const text = useText();
  const pairs = useFleet("pairs");
  const formats = useFormats();
  const areCut = useArePairsCut();
  const matrix = useMemo(() => (pairs ? pairMatrix(pairs.values()) : null), [pairs]);
  return (
    <Stack>
      <PageTitle>{text("pairs")}</PageTitle>
      <Group justify="space-between">
        <Text c="dimmed">{text("pairsHint")}</Text>
        <Group gap="md">
          {PAIR_HEALTHS.map((health) => (
            <Group key={health} gap={6}>
              <span className={`pair-key pair-${health}`} />
              <Text size="xs">{text(`pair_${health}`)}</Text>
            </Group>
          ))}
        </Group>
      </Group>
      {areCut && (
        <Alert color="orange" variant="outline" role="status">
          {text("pairsCut", { count: formats.number(pairs?.size ?? 0) })}
        </Alert>
      )}
      {matrix === null && <Loading />}
      {matrix?.sources.length === 0 && <Text>{text("noPairs")}</Text>}
      {matrix !== null && matrix.sources.length > 0 && (
        <Box className="matrix" tabIndex={0} role="region" aria-label={text("pairs")}>
          <Table withColumnBorders>
            <Table.Thead>
              <Table.Tr>
                <Table.Td>{text("fromTo")}</Table.Td>
                {matrix.targets.map((target) => (
                  <Table.Th key={target} scope="col">
                    {target}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {matrix.sources.map((source) => (
                <Table.Tr key={source}>
                  <Table.Th scope="row">{source}</Table.Th>
                  {matrix.targets.map((target) => (
                    <Table.Td key={target}>
                      <Pair row={matrix.at(source, target)} />
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Box>
      )}
    </Stack>
  );
}

function Pair({ row }: { row: PairRow | undefined }) {
  const text = useText();
  if (row === undefined) return null;
  return (
    <div className={`pair pair-${pairHealth(row)}`}>
      <Anchor
        size="sm"
        className="number"
        aria-label={text("pairSummary", { ...row })}
        renderRoot={(props) => <Link to="/nodes" search={{ pair: row.pair }} {...props} />}
      >
        {row.free} / {row.slots}
      </Anchor>
      {row.refused > 0 && (
        <Text size="xs" className="number">
          {text("refusedCount", { count: row.refused })}
        </Text>
      )}
    </div>
  );
}
