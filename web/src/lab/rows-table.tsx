import { Box, Text } from "@mantine/core";
import {
  createColumnHelper,
  flexRender,
  getCoreRowModel,
  useReactTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";

import { useFormats, type Formats } from "../app/formats";
import { SortableHeader } from "../app/sortable-header";
import { useText, type Text as TextOf } from "../messages/text";
import { scoreNames } from "./row-fields";
import { RowLink } from "./row-link";
import type { RowsSearch } from "./rows-search";
import { inputText, outputText } from "./row-values";
import type { Experiment, ResultRow } from "./types";

const ROW_PX = 36;
const ROWS_BEYOND = 10;
/** How many rows before the last one the next page is asked for. */
const ROWS_AHEAD = 50;

const column = createColumnHelper<ResultRow>();

/** The columns; the id of one that can be sorted by is the field. */
function columnsOf(experiment: Experiment, search: RowsSearch, text: TextOf, formats: Formats) {
  return [
    column.display({
      id: "item_id",
      header: text("item"),
      cell: ({ row }) => (
        <RowLink experimentId={experiment.experiment_id} row={row.original} within={search} />
      ),
    }),
    column.accessor("status", {
      header: text("state"),
      cell: (cell) => text(`item_${cell.getValue()}`),
    }),
    column.accessor((row) => inputText(row), { id: "input", header: text("input") }),
    column.accessor((row) => row.error_code ?? outputText(row), {
      id: "output",
      header: text("output"),
    }),
    ...scoreNames(experiment).map((name) =>
      column.accessor((row) => row.scores[name]?.score ?? null, {
        id: `score.${name}`,
        header: name,
        cell: (cell) => {
          const score = cell.getValue();
          return score === null ? "–" : formats.score(score);
        },
      }),
    ),
    column.accessor("latency_ms", {
      header: text("latency"),
      cell: (cell) => {
        const latency = cell.getValue();
        return latency === null ? "–" : formats.milliseconds(latency);
      },
    }),
  ];
}

interface RowsTableProps {
  experiment: Experiment;
  rows: ResultRow[];
  search: RowsSearch;
  onSort: (sorting: { sort: string; desc: boolean }) => void;
  /** Called when the reader comes near the last row. */
  onEnd: () => void;
}

/** Rows as far as they were read; only those in sight are in the document. */
export function RowsTable({ experiment, rows, search, onSort, onEnd }: RowsTableProps) {
  const text = useText();
  const formats = useFormats();
  const columns = useMemo(
    () => columnsOf(experiment, search, text, formats),
    [experiment, search, text, formats],
  );
  const table = useReactTable({
    data: rows,
    columns,
    manualSorting: true,
    autoResetPageIndex: false,
    getRowId: (row) => `${row.item_id} ${row.repetition} ${row.turn}`,
    getCoreRowModel: getCoreRowModel(),
  });
  const isDescending = search.desc ?? false;
  const sorterBy = (field: string) => {
    if (UNSORTED.includes(field)) return undefined;
    return () => {
      onSort({ sort: field, desc: field === search.sort && !isDescending });
    };
  };
  const view = useRef<HTMLDivElement>(null);
  const found = table.getRowModel().rows;
  const virtual = useVirtualizer({
    count: found.length,
    getScrollElement: () => view.current,
    estimateSize: () => ROW_PX,
    overscan: ROWS_BEYOND,
  });
  const items = virtual.getVirtualItems();
  const lastInSight = items[items.length - 1]?.index ?? -1;
  useEffect(() => {
    if (lastInSight >= found.length - ROWS_AHEAD) onEnd();
  }, [lastInSight, found.length, onEnd]);
  return (
    <Box ref={view} className="rows-table" tabIndex={0} role="region" aria-label={text("rows")}>
      <div role="table" aria-rowcount={-1} aria-label={text("rows")}>
        <div role="rowgroup" className="node-table-head">
          {table.getHeaderGroups().map((group) => (
            <div role="row" className="result-row" key={group.id} aria-rowindex={1}>
              {group.headers.map((header) => (
                <SortableHeader
                  key={header.id}
                  className="node-cell"
                  title={String(header.column.columnDef.header)}
                  isSorted={header.id === search.sort}
                  isDescending={isDescending}
                  onSort={sorterBy(header.id)}
                />
              ))}
            </div>
          ))}
        </div>
        <div role="rowgroup" className="node-table-body" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = found[item.index];
            return row === undefined ? null : (
              <div
                role="row"
                className="result-row node-table-row"
                key={row.id}
                aria-rowindex={item.index + 2}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {row.getVisibleCells().map((cell) => (
                  <div role="cell" key={cell.id} className="node-cell">
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

/** Columns that show a part of what they stand for cannot be sorted by. */
const UNSORTED: readonly string[] = ["input", "output"];
