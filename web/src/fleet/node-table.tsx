import { Anchor, Box, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import {
  createColumnHelper,
  flexRender,
  getCoreRowModel,
  useReactTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";

import { SortableHeader } from "../app/sortable-header";
import type { NodeRow } from "../live/fleet-state";
import { useText, type Text as TextOf } from "../messages/text";
import { NODE_SORTS, type NodeFilter, type NodeSort } from "./node-filter";
import { orderedNodes } from "./node-order";
import { NodeStatus } from "./node-status";

const ROW_PX = 36;
const ROWS_BEYOND = 10;

const column = createColumnHelper<NodeRow>();

function columnsOf(text: TextOf) {
  return [
    column.accessor("node_id", {
      header: text("node"),
      cell: (cell) => (
        <Anchor
          size="sm"
          truncate
          renderRoot={(props) => (
            <Link to="/nodes/$nodeId" params={{ nodeId: cell.getValue() }} {...props} />
          )}
        >
          {cell.getValue()}
        </Anchor>
      ),
    }),
    column.accessor("status", {
      header: text("state"),
      cell: (cell) => <NodeStatus status={cell.getValue()} />,
    }),
    column.accessor("used", {
      header: text("slotsUsed"),
      cell: (cell) => `${cell.getValue()} / ${cell.row.original.slots}`,
    }),
    column.accessor("cell", { header: text("cell"), cell: (cell) => cell.getValue() }),
    column.accessor((row) => row.services.join(" "), { id: "services", header: text("services") }),
    column.accessor((row) => row.languages.join(" "), { id: "languages", header: text("languages") }),
    column.accessor((row) => row.reason ?? "", { id: "reason", header: text("reason") }),
  ];
}

interface NodeTableProps {
  rows: NodeRow[];
  filter: NodeFilter;
  onSort: (sorting: { sort: NodeSort; desc: boolean }) => void;
}

/** Nodes as rows; only those in sight are in the document, so that ten thousand are as quick. */
export function NodeTable({ rows, filter, onSort }: NodeTableProps) {
  const text = useText();
  const columns = useMemo(() => columnsOf(text), [text]);
  const sorted = filter.sort ?? "node_id";
  const isDescending = filter.desc ?? false;
  const found = useMemo(
    () => orderedNodes(rows, sorted, isDescending),
    [rows, sorted, isDescending],
  );
  const view = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: found.length,
    getScrollElement: () => view.current,
    estimateSize: () => ROW_PX,
    overscan: ROWS_BEYOND,
  });
  const items = virtual.getVirtualItems();
  const [first, end] = [items[0]?.index ?? 0, (items.at(-1)?.index ?? -1) + 1];
  // The table knows the rows in sight alone: to know ten thousand takes it longer than to draw.
  const inSight = useMemo(() => found.slice(first, end), [found, first, end]);
  const table = useReactTable({
    data: inSight,
    columns,
    manualSorting: true,
    // There are no pages to go back to; the reset would draw the table again, for ever.
    autoResetPageIndex: false,
    getRowId: (row) => row.node_id,
    getCoreRowModel: getCoreRowModel(),
  });
  const drawn = table.getRowModel().rows;
  const sorterBy = (column: string) => {
    const sort = NODE_SORTS.find((known) => known === column);
    if (sort === undefined) return undefined;
    return () => {
      onSort({ sort, desc: sort === sorted && !isDescending });
    };
  };
  return (
    <Box ref={view} className="node-table" tabIndex={0} role="region" aria-label={text("nodes")}>
      <div role="table" aria-rowcount={found.length + 1} aria-label={text("nodes")}>
        <div role="rowgroup" className="node-table-head">
          {table.getHeaderGroups().map((group) => (
            <div role="row" className="node-row" key={group.id} aria-rowindex={1}>
              {group.headers.map((header) => (
                <SortableHeader
                  key={header.id}
                  className={`node-cell column-${header.id}`}
                  title={String(header.column.columnDef.header)}
                  isSorted={header.id === sorted}
                  isDescending={isDescending}
                  onSort={sorterBy(header.id)}
                />
              ))}
            </div>
          ))}
        </div>
        <div role="rowgroup" className="node-table-body" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = drawn[item.index - first];
            return row === undefined ? null : (
              <div
                role="row"
                className="node-row node-table-row"
                key={row.id}
                aria-rowindex={item.index + 2}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {row.getVisibleCells().map((cell) => (
                  <div role="cell" key={cell.id} className={`node-cell column-${cell.column.id}`}>
                    {flexRender(cell.column.columnDef.cell, cell.getContext())}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {found.length === 0 && (
        <Text c="dimmed" p="md">
          {text("nothingFound")}
        </Text>
      )}
    </Box>
  );
}
