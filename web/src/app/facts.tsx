import type { ReactNode } from "react";

/** Names and values of one thing, as many beside each other as fit; a missing value is a dash. */
export function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <div className="facts" role="table">
      {rows.map(([name, value]) => (
        <div key={name} className="fact-row" role="row">
          <div className="fact-name" role="rowheader">
            {name}
          </div>
          <div className="fact" role="cell">
            {value === null || value === "" ? "–" : value}
          </div>
        </div>
      ))}
    </div>
  );
}
