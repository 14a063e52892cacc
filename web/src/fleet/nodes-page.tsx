import { Group, NativeSelect, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useDebouncedValue } from "@mantine/hooks";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { filteredNodes, isPair, NODE_STATES, nodeFilterOf } from "./node-filter";
import { NodeCells } from "./node-cells";
import { NodeTable } from "./node-table";

const route = getRouteApi("/shell/nodes");
const TYPING_MS = 300;

/** Every node, filtered by what the address says. */
export function NodesPage() {
  const text = useText();
  const formats = useFormats();
  const filter = route.useSearch();
  const navigate = useNavigate({ from: "/nodes" });
  const nodes = useFleet("nodes");
  const [pair] = useDebouncedValue(filter.pair, TYPING_MS);
  const members = useQuery({
    queryKey: ["pool", pair],
    queryFn: () => membersOf(pair ?? ""),
    enabled: pair !== undefined && pair === filter.pair && isPair(pair),
  });
  const shown = useMemo(
    () => (nodes ? filteredNodes(nodes.values(), filter, members.data ?? null) : []),
    [nodes, filter, members.data],
  );
  const change = (changed: Readonly<Record<string, string | boolean>>) => {
    void navigate({ search: nodeFilterOf({ ...filter, ...changed }), replace: true });
  };
  return (
    <Stack>
      <PageTitle>{text("nodes")}</PageTitle>
      <Group align="end">
        <TextInput
          {...SEARCH_FIELD}
          label={text("search")}
          placeholder={text("searchNodesHint")}
          value={filter.q ?? ""}
          onChange={(event) => {
            change({ q: event.currentTarget.value });
          }}
        />
        <NativeSelect
          label={text("state")}
          value={filter.status ?? ""}
          data={[
            { value: "", label: text("anyState") },
            ...NODE_STATES.map((state) => ({ value: state, label: text(state) })),
          ]}
          onChange={(event) => {
            change({ status: event.currentTarget.value });
          }}
        />
        <TextInput
          label={text("pair")}
          placeholder="en:es"
          value={filter.pair ?? ""}
          onChange={(event) => {
            change({ pair: event.currentTarget.value });
          }}
        />
        <Switch
          label={text("asCells")}
          checked={filter.view === "cells"}
          onChange={(event) => {
            change({ view: event.currentTarget.checked ? "cells" : "" });
          }}
        />
        <Text c="dimmed" size="sm" role="status">
          {text("nodesShown", {
            shown: formats.number(shown.length),
            total: formats.number(nodes?.size ?? 0),
          })}
        </Text>
      </Group>
      {members.error && <ProblemAlert error={members.error} />}
      {nodes === null ? (
        <Loading />
      ) : filter.view === "cells" ? (
        <NodeCells rows={shown} />
      ) : (
        <NodeTable rows={shown} filter={filter} onSort={change} />
      )}
    </Stack>
  );
}

async function membersOf(pair: string): Promise<ReadonlySet<string>> {
  const pool = await answerOf(api.GET("/api/v1/pools/{pair}", { params: { path: { pair } } }));
  return new Set(pool.node_ids);
}
