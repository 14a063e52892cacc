import { Card, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { ItemCard } from "./item-card";

interface DatasetDifferenceProps {
  datasetId: string;
  from: number;
  to: number;
}

/** What changed from one version to another: all items counted, some shown. */
export function DatasetDifference({ datasetId, from, to }: DatasetDifferenceProps) {
  const text = useText();
  const formats = useFormats();
  const difference = useQuery({
    queryKey: ["difference", datasetId, from, to],
    queryFn: () =>
      answerOf(
        api.GET("/api/v1/datasets/{dataset_id}/diff", {
          params: { path: { dataset_id: datasetId }, query: { from, to } },
        }),
      ),
  });
  if (difference.isPending) return <Loading />;
  if (difference.error) return <ProblemAlert error={difference.error} />;
  const { added, removed, unchanged, added_items, removed_items } = difference.data;
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("changesFromTo", { from, to })}
      </Title>
      <Text>
        {text("changesCounted", {
          added: formats.number(added),
          removed: formats.number(removed),
          unchanged: formats.number(unchanged),
        })}
      </Text>
      <Stack gap="xs">
        {added_items.map((item) => (
          <ItemCard key={`+${item.item_id}`} item={item} datasetId={datasetId} mark={text("added")} />
        ))}
        {removed_items.map((item) => (
          <ItemCard
            key={`-${item.item_id}`}
            item={item}
            datasetId={datasetId}
            mark={text("removed")}
          />
        ))}
      </Stack>
    </Card>
  );
}
