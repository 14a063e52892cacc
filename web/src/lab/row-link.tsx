import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { rowSearchOf, type RowsSearch } from "./rows-search";
import type { ResultRow } from "./types";

interface RowLinkProps {
  experimentId: string;
  row: Pick<ResultRow, "item_id" | "turn" | "repetition">;
  /** The list that the row stands in, so that its page knows the next one. */
  within?: RowsSearch;
}

/** The way to a row's own page. */
export function RowLink({ experimentId, row, within }: RowLinkProps) {
  return (
    <Anchor
      size="sm"
      renderRoot={(props) => (
        <Link
          to="/lab/experiments/$experimentId/rows/$itemId"
          params={{ experimentId, itemId: row.item_id }}
          search={rowSearchOf({ ...within, turn: row.turn, repetition: row.repetition })}
          {...props}
        />
      )}
    >
      {row.item_id}
      {row.turn > 0 && ` · ${row.turn}`}
    </Anchor>
  );
}
