import { Anchor, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { experimentQuery } from "./experiment-query";
import { kindsIn } from "./condition-value";
import { FilterBar } from "./filter-bar";
import { LabNavigation } from "./lab-navigation";
import { fieldsOf } from "./row-fields";
import { countQuery, firstRowsQuery, rowsQuery } from "./rows-query";
import { rowsSearchOf } from "./rows-search";
import { RowsTable } from "./rows-table";
import type { Experiment } from "./types";

/** Rows that are looked at to know what the columns hold. */
const ROWS_LOOKED_AT = 200;

const route = getRouteApi("/shell/lab/experiments/$experimentId/rows");

/** The rows of an experiment, filtered and sorted as the address says. */
export function RowsPage() {
  const { experimentId } = route.useParams();
  const experiment = useQuery(experimentQuery(experimentId));
  if (experiment.isPending) return <Loading />;
  if (experiment.error) return <ProblemAlert error={experiment.error} />;
  return <Rows experiment={experiment.data} />;
}

function Rows({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const formats = useFormats();
  const id = experiment.experiment_id;
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/lab/experiments/$experimentId/rows" });
  const first = useQuery(firstRowsQuery(id));
  const rows = useInfiniteQuery(rowsQuery(id, search));
  const fields = fieldsOf(experiment, first.data?.[0]);
  const shown = rows.data?.pages.flatMap((page) => page.items) ?? [];
  // Once the rows are there, and where they are not all that pass.
  const count = useQuery({ ...countQuery(id, search), enabled: rows.hasNextPage });
  const kinds = kindsIn([...(first.data ?? []), ...shown.slice(0, ROWS_LOOKED_AT)]);
  const change = (changed: Readonly<Record<string, string | boolean>>) => {
    void navigate({ search: rowsSearchOf({ ...search, ...changed }), replace: true });
  };
  return (
    <Stack>
      <PageTitle>{text("rowsOf", { name: experiment.name })}</PageTitle>
      <LabNavigation />
      <Anchor
        renderRoot={(props) => (
          <Link to="/lab/experiments/$experimentId" params={{ experimentId: id }} {...props} />
        )}
      >
        {text("toExperiment")}
      </Anchor>
      <FilterBar
        key={search.filter}
        filter={search.filter ?? ""}
        fields={fields}
        kinds={kinds}
        onFilter={(filter) => {
          change({ filter });
        }}
      />
      <Group align="end">
        <NativeSelect
          label={text("sortBy")}
          value={search.sort ?? ""}
          data={[
            { value: "", label: text("orderOfDataset") },
            ...new Set([...fields, ...(search.sort === undefined ? [] : [search.sort])]),
          ]}
          onChange={(event) => {
            change({ sort: event.currentTarget.value });
          }}
        />
        <NativeSelect
          label={text("direction")}
          value={search.desc ? "desc" : "asc"}
          data={[
            { value: "asc", label: text("ascending") },
            { value: "desc", label: text("descending") },
          ]}
          onChange={(event) => {
            change({ desc: event.currentTarget.value === "desc" });
          }}
        />
        <Text c="dimmed" size="sm" role="status">
          {rows.data &&
            (rows.hasNextPage
              ? text(count.data == null ? "rowsShownSoFar" : "rowsShownOf", {
                  count: formats.number(shown.length),
                  // While a run goes on, more rows may have come since they were counted.
                  total: formats.number(Math.max(count.data ?? 0, shown.length)),
                })
              : text("rowsShown", { count: formats.number(shown.length) }))}
        </Text>
      </Group>
      {rows.error && <ProblemAlert error={rows.error} />}
      {rows.isPending && <Loading />}
      {rows.data && (
        <RowsTable
          experiment={experiment}
          rows={shown}
          search={search}
          onSort={change}
          onEnd={() => {
            if (rows.hasNextPage && !rows.isFetching) void rows.fetchNextPage();
          }}
        />
      )}
    </Stack>
  );
}
