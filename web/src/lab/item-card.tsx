import { Card, SimpleGrid, Stack, Text } from "@mantine/core";

import { ColumnValue } from "./column-value";
import type { Item } from "./types";

interface ItemCardProps {
  item: Item;
  datasetId: string;
  /** What became of it, such as that it was added. */
  mark?: string;
}

/** An item of a dataset: the columns of each of its turns. */
export function ItemCard({ item, datasetId, mark }: ItemCardProps) {
  return (
    <Card withBorder p="xs">
      <Text size="xs" c="dimmed" className="fact">
        {mark !== undefined && `${mark} `}
        {item.item_id}
      </Text>
      <Stack gap="xs">
        {item.turns.map((turn, index) => (
          <SimpleGrid key={`${item.item_id} ${index}`} cols={{ base: 1, sm: 2, lg: 3 }} spacing="xs">
            {Object.entries(turn).map(([name, value]) => (
              <div key={name}>
                <Text size="xs" c="dimmed">
                  {name}
                </Text>
                <ColumnValue name={name} value={value} datasetId={datasetId} />
              </div>
            ))}
          </SimpleGrid>
        ))}
      </Stack>
    </Card>
  );
}
