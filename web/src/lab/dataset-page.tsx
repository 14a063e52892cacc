import { Anchor, Button, Card, Group, NativeSelect, Stack, Text, Title } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";

import { answerOf, api, problemOf } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import { ConfirmedAction } from "../app/confirmed-action";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { DatasetDifference } from "./dataset-difference";
import { datasetKey, datasetQuery } from "./dataset-query";
import { DATASETS } from "./datasets-page";
import { ItemCard } from "./item-card";
import { LabNavigation } from "./lab-navigation";
import type { Dataset } from "./types";
import { UploadForm } from "./upload-form";
import { versionsSearchOf } from "./versions-search";

const route = getRouteApi("/shell/lab/datasets/$datasetId");
const ITEMS_A_PAGE = 50;

/** A dataset: its versions, what changed between them, its items. */
export function DatasetPage() {
  const { datasetId } = route.useParams();
  const dataset = useQuery(datasetQuery(datasetId));
  if (dataset.isPending) return <Loading />;
  if (dataset.error) return <ProblemAlert error={dataset.error} />;
  return <Shown dataset={dataset.data} />;
}

function Shown({ dataset }: { dataset: Dataset }) {
  const text = useText();
  const formats = useFormats();
  const id = dataset.dataset_id;
  const path = { path: { dataset_id: id } };
  const mayAct = useMayAct("datasets");
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/datasets/$datasetId" });
  const versions = useQuery({
    queryKey: ["versions", id, dataset.latest.version],
    queryFn: () => answerOf(api.GET("/api/v1/datasets/{dataset_id}/versions", { params: path })),
  });
  const numbers = versions.data?.items.map((one) => one.version) ?? [dataset.latest.version];
  const version = search.version ?? dataset.latest.version;
  const change = (changed: Readonly<Record<string, number>>) => {
    void navigate({ search: versionsSearchOf({ ...search, ...changed }), replace: true });
  };
  return (
    <Stack>
      <PageTitle>{dataset.name}</PageTitle>
      <LabNavigation />
      {versions.error && <ProblemAlert error={versions.error} />}
      <Group align="end">
        <NativeSelect
          label={text("version")}
          value={String(version)}
          data={(versions.data?.items ?? [dataset.latest]).map((one) => ({
            value: String(one.version),
            label: text("versionWithItems", {
              version: one.version,
              items: formats.number(one.items),
              time: formats.time(one.created_at),
            }),
          }))}
          onChange={(event) => {
            change({ version: Number(event.currentTarget.value) });
          }}
        />
        {numbers.length > 1 && (
          <NativeSelect
            label={text("changesSince")}
            value={String(search.from ?? "")}
            data={[
              { value: "", label: "–" },
              ...numbers.filter((one) => one !== version).map(String),
            ]}
            onChange={(event) => {
              change({ from: Number(event.currentTarget.value) });
            }}
          />
        )}
        <Anchor href={`/api/v1/datasets/${encodeURIComponent(id)}/export?version=${version}`}>
          {text("download")}
        </Anchor>
        {mayAct && (
          <ConfirmedAction
            label={text("delete")}
            consequence={text("deleteDatasetConsequence", { name: dataset.name })}
            color="red"
            act={async () => {
              const { error, response } = await api.DELETE("/api/v1/datasets/{dataset_id}", {
                params: path,
              });
              if (!response.ok) throw problemOf(error, response.status);
            }}
            onDone={() => {
              void queryClient.invalidateQueries({ queryKey: DATASETS });
              void navigate({ to: "/lab/datasets" });
            }}
          />
        )}
      </Group>
      {search.from !== undefined && search.from !== version && (
        <DatasetDifference datasetId={id} from={search.from} to={version} />
      )}
      {mayAct && (
        <UploadForm
          path={`/api/v1/datasets/${encodeURIComponent(id)}/versions`}
          onDone={(imported) => {
            void queryClient.invalidateQueries({ queryKey: datasetKey(id) });
            change({ version: imported.version, from: dataset.latest.version });
          }}
        />
      )}
      <Items datasetId={id} version={version} />
    </Stack>
  );
}

function Items({ datasetId, version }: { datasetId: string; version: number }) {
  const text = useText();
  const items = useInfiniteQuery({
    queryKey: ["items", datasetId, version],
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/datasets/{dataset_id}/items", {
          params: {
            path: { dataset_id: datasetId },
            query: { version, limit: ITEMS_A_PAGE, ...(pageParam && { cursor: pageParam }) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const shown = items.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("items")}
      </Title>
      {items.isPending && <Loading />}
      {items.error && <ProblemAlert error={items.error} />}
      {items.data && shown.length === 0 && <Text c="dimmed">{text("nothingThere")}</Text>}
      <Stack gap="xs">
        {shown.map((item) => (
          <ItemCard key={item.item_id} item={item} datasetId={datasetId} />
        ))}
        {items.hasNextPage && (
          <Button
            variant="default"
            loading={items.isFetching}
            onClick={() => {
              void items.fetchNextPage();
            }}
          >
            {text("showMore")}
          </Button>
        )}
      </Stack>
    </Card>
  );
}
