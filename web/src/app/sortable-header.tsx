import { UnstyledButton } from "@mantine/core";

interface SortableHeaderProps {
  title: string;
  className: string;
  isSorted: boolean;
  isDescending: boolean;
  /** Left out where the table cannot be sorted by the column. */
  onSort?: (() => void) | undefined;
}

/** The head of a column of a virtual table; pressed, the table is sorted by it. */
export function SortableHeader({
  title,
  className,
  isSorted,
  isDescending,
  onSort,
}: SortableHeaderProps) {
  const direction = isDescending ? "descending" : "ascending";
  return (
    <div role="columnheader" className={className} aria-sort={isSorted ? direction : undefined}>
      {onSort === undefined ? (
        title
      ) : (
        <UnstyledButton fw={600} fz="xs" onClick={onSort}>
          {title}
          {isSorted && <span aria-hidden="true">{isDescending ? " ↓" : " ↑"}</span>}
        </UnstyledButton>
      )}
    </div>
  );
}
