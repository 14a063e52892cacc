import { Anchor, Button, Code, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";

import { answerOf, api } from "../api/client";
import { useMayAct } from "../api/identity";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { LabNavigation } from "./lab-navigation";
import { UploadForm } from "./upload-form";

export const DATASETS = ["datasets"] as const;

/** The tenant's datasets, and the way to bring one. */
export function DatasetsPage() {
  const text = useText();
  const formats = useFormats();
  const navigate = useNavigate();
  const mayAct = useMayAct("datasets");
  const datasets = useInfiniteQuery({
    queryKey: DATASETS,
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/datasets", { params: { query: pageParam ? { cursor: pageParam } : {} } }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const rows = datasets.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageTitle>{text("datasets")}</PageTitle>
      <LabNavigation />
      {mayAct && (
        <UploadForm
          path="/api/v1/datasets"
          isNew
          onDone={(imported) => {
            void navigate({
              to: "/lab/datasets/$datasetId",
              params: { datasetId: imported.dataset_id },
            });
          }}
        />
      )}
      {datasets.isPending && <Loading />}
      {datasets.error && <ProblemAlert error={datasets.error} />}
      {datasets.data && rows.length === 0 && (
        <Stack gap="xs">
          <Text>{text("noDatasets")}</Text>
          <Code block>{"dragoman dataset import FILE --name NAME"}</Code>
        </Stack>
      )}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label={text("datasets")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("name")}</Table.Th>
                <Table.Th className="figure">{text("version")}</Table.Th>
                <Table.Th className="figure">{text("items")}</Table.Th>
                <Table.Th>{text("columns")}</Table.Th>
                <Table.Th>{text("created")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((dataset) => (
                <Table.Tr key={dataset.dataset_id}>
                  <Table.Td className="fact">
                    <Anchor
                      size="sm"
                      renderRoot={(props) => (
                        <Link
                          to="/lab/datasets/$datasetId"
                          params={{ datasetId: dataset.dataset_id }}
                          {...props}
                        />
                      )}
                    >
                      {dataset.name}
                    </Anchor>
                  </Table.Td>
                  <Table.Td className="number figure">{dataset.latest.version}</Table.Td>
                  <Table.Td className="number figure">{formats.number(dataset.latest.items)}</Table.Td>
                  <Table.Td className="fact">{columnNames(dataset.latest.schema).join(", ")}</Table.Td>
                  <Table.Td>{formats.time(dataset.latest.created_at)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {datasets.hasNextPage && (
        <Button
          variant="default"
          onClick={() => {
            void datasets.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </Stack>
  );
}

/** The columns that a version's schema names. */
export function columnNames(schema: Readonly<Record<string, unknown>>): readonly string[] {
  const { properties } = schema;
  return typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
}
