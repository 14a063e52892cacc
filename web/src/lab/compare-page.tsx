import { Button, Group, MultiSelect, Select, Stack, Text } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";

import { answerOf, api, problemOf } from "../api/client";
import { saveFile } from "../app/save-file";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { ComparedRows } from "./compared-rows";
import { ComparedScores } from "./compared-scores";
import { compareSearchOf, othersOf } from "./compare-search";
import { LabNavigation } from "./lab-navigation";

const route = getRouteApi("/shell/lab/compare");
const ROWS_A_PAGE = 20;
const LISTED = 500;

/** Experiments against a baseline: what is better, and how sure that is. */
export function ComparePage() {
  const text = useText();
  const search = route.useSearch();
  const others = othersOf(search);
  return (
    <Stack>
      <PageTitle>{text("compare")}</PageTitle>
      <LabNavigation />
      <Choice />
      {search.baseline === undefined || others.length === 0 ? (
        <Text c="dimmed">{text("chooseToCompare")}</Text>
      ) : (
        <Compared baseline={search.baseline} others={others} by={search.by} />
      )}
    </Stack>
  );
}

function Choice() {
  const text = useText();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/compare" });
  const experiments = useQuery({
    queryKey: ["experiments", "all"],
    queryFn: () => answerOf(api.GET("/api/v1/experiments", { params: { query: { limit: LISTED } } })),
  });
  const names = experiments.data?.items.map((one) => ({
    value: one.experiment_id,
    label: one.name,
  }));
  const change = (changed: Readonly<Record<string, string>>) => {
    void navigate({ search: compareSearchOf({ ...search, ...changed }) });
  };
  if (experiments.error) return <ProblemAlert error={experiments.error} />;
  return (
    <Group align="end">
      <Select
        label={text("baseline")}
        searchable
        data={names ?? []}
        value={search.baseline ?? null}
        onChange={(chosen) => {
          change({ baseline: chosen ?? "" });
        }}
      />
      <MultiSelect
        label={text("comparedWithIt")}
        className="grow"
        searchable
        data={(names ?? []).filter((one) => one.value !== search.baseline)}
        value={[...othersOf(search)]}
        onChange={(chosen) => {
          change({ others: chosen.join(",") });
        }}
      />
    </Group>
  );
}

interface ComparedProps {
  baseline: string;
  others: readonly string[];
  by: string | undefined;
}

function Compared({ baseline, others, by }: ComparedProps) {
  const text = useText();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/compare" });
  const order = { baseline, others: [...others], ...(by !== undefined && { sort_by: by }) };
  const compared = useInfiniteQuery({
    queryKey: ["comparison", order],
    queryFn: ({ pageParam }) =>
      answerOf(
        api.POST("/api/v1/experiments/compare", {
          body: { ...order, limit: ROWS_A_PAGE, ...(pageParam && { cursor: pageParam }) },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
  });
  const saving = useMutation({
    mutationFn: async () => {
      const { data, error, response } = await api.POST("/api/v1/experiments/compare/report", {
        body: order,
        parseAs: "text",
      });
      if (!response.ok || data === undefined) throw problemOf(error, response.status);
      saveFile("comparison.md", data);
    },
  });
  if (compared.error) return <ProblemAlert error={compared.error} />;
  const [first] = compared.data?.pages ?? [];
  if (first === undefined) return <Loading />;
  const rows = compared.data?.pages.flatMap((page) => page.rows) ?? [];
  return (
    <>
      <Group>
        <Button
          variant="default"
          loading={saving.isPending}
          onClick={() => {
            saving.mutate();
          }}
        >
          {text("downloadReport")}
        </Button>
      </Group>
      {saving.error && <ProblemAlert error={saving.error} />}
      {first.others.map((run) => (
        <ComparedScores key={run.experiment_id} baseline={first.baseline.name} run={run} />
      ))}
      <ComparedRows
        comparison={first}
        rows={rows}
        onSort={(name) => {
          void navigate({ search: compareSearchOf({ ...search, by: name }), replace: true });
        }}
      />
      {compared.hasNextPage && (
        <Button
          variant="default"
          loading={compared.isFetching}
          onClick={() => {
            void compared.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </>
  );
}
