/** Where nodes stand when each is a small square: row by row, as many in a row as fit. */
export interface CellGrid {
  columns: number;
  count: number;
}

/** Pixels from one square to the next. */
export const PITCH_PX = 16;
export const SQUARE_PX = 13;

export function cellGrid(widthPx: number, count: number): CellGrid {
  return { columns: Math.max(1, Math.floor(widthPx / PITCH_PX)), count };
}

export function gridHeight({ columns, count }: CellGrid): number {
  return Math.ceil(count / columns) * PITCH_PX;
}

/** The node at a point; null where there is none. */
export function indexAt({ columns, count }: CellGrid, x: number, y: number): number | null {
  const column = Math.floor(x / PITCH_PX);
  const index = Math.floor(y / PITCH_PX) * columns + column;
  return x >= 0 && y >= 0 && column < columns && index < count ? index : null;
}

/** The nodes between two heights, as the first and the one after the last. */
export function inSight(grid: CellGrid, top: number, heightPx: number): [number, number] {
  const first = Math.max(0, Math.floor(top / PITCH_PX)) * grid.columns;
  const end = Math.ceil((top + heightPx) / PITCH_PX) * grid.columns;
  return [Math.min(first, grid.count), Math.min(end, grid.count)];
}

/** Where a key leads from a node; null for keys that lead nowhere. */
export function stepBy({ columns, count }: CellGrid, index: number, key: string): number | null {
  const steps: Readonly<Record<string, number>> = {
    ArrowLeft: index - 1,
    ArrowRight: index + 1,
    ArrowUp: index - columns,
    ArrowDown: index + columns,
    Home: 0,
    End: count - 1,
  };
  const step = steps[key];
  if (step === undefined) return null;
  return step >= 0 && step < count ? step : index;
}
