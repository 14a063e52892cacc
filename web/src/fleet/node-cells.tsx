import { Group, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";

import type { NodeRow } from "../live/fleet-state";
import { useText } from "../messages/text";
import { cellGrid, gridHeight, indexAt, inSight, PITCH_PX, SQUARE_PX, stepBy } from "./cell-grid";
import { NODE_STATES, type NodeState } from "./node-filter";
import { NodeStatus } from "./node-status";

/** What is drawn of a state; the same names as in the style sheet. */
const COLOR_NAMES: Readonly<Record<NodeState, string>> = {
  registering: "--mantine-color-blue-5",
  ready: "--mantine-color-green-6",
  degraded: "--mantine-color-orange-6",
  draining: "--mantine-color-grape-5",
  offline: "--mantine-color-gray-6",
};

/**
 * Every node as a square, coloured by its state and filled by its slots in use. Only those in sight
 * are drawn, on one canvas, so that ten thousand cost as little as a screen of them.
 */
export function NodeCells({ rows }: { rows: readonly NodeRow[] }) {
  const text = useText();
  const navigate = useNavigate();
  const scheme = useComputedColorScheme("light");
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { ref: sized, width, height } = useElementSize();
  const ref = useMergedRef(place, sized);
  const [chosen, setChosen] = useState<string | null>(null);
  const nodes = useMemo(
    () =>
      [...rows].sort(
        (one, other) => one.cell - other.cell || (one.node_id < other.node_id ? -1 : 1),
      ),
    [rows],
  );
  const grid = useMemo(() => cellGrid(width, nodes.length), [width, nodes.length]);
  const index = Math.max(0, nodes.findIndex(({ node_id }) => node_id === chosen));
  const active = nodes[index];

  useEffect(() => {
    const view = place.current;
    if (view === null || width === 0) return;
    let frame = 0;
    const redraw = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        if (canvas.current === null) return;
        const active = chosen === null ? null : index;
        draw(canvas.current, nodes, grid, { width, height, top: view.scrollTop, active });
      });
    };
    redraw();
    view.addEventListener("scroll", redraw, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      view.removeEventListener("scroll", redraw);
    };
  }, [nodes, grid, width, height, scheme, index, chosen]);

  const open = (nodeId: string) => {
    void navigate({ to: "/nodes/$nodeId", params: { nodeId } });
  };
  const nodeAt = (event: MouseEvent) => {
    const view = place.current;
    if (view === null) return undefined;
    const box = view.getBoundingClientRect();
    const y = event.clientY - box.top - view.clientTop + view.scrollTop;
    const found = indexAt(grid, event.clientX - box.left - view.clientLeft, y);
    return found === null ? undefined : nodes[found];
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && active !== undefined) open(active.node_id);
    const next = stepBy(grid, index, event.key);
    if (next === null) return;
    event.preventDefault();
    setChosen(nodes[next]?.node_id ?? null);
    const view = place.current;
    const top = Math.floor(next / grid.columns) * PITCH_PX;
    if (view === null) return;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + PITCH_PX > view.scrollTop + height) view.scrollTop = top + PITCH_PX - height;
  };
  return (
    <>
      <Group gap="md">
        {NODE_STATES.map((state) => (
          <NodeStatus key={state} status={state} />
        ))}
      </Group>
      <Text size="sm" className="number" role="status">
        {active === undefined ? text("nothingFound") : described(active, text(active.status))}
      </Text>
      <div
        ref={ref}
        className="node-cells"
        role="listbox"
        tabIndex={0}
        aria-label={text("nodesAsCells")}
        aria-activedescendant={active === undefined ? undefined : "node-cell-active"}
        onKeyDown={press}
        onMouseMove={(event) => {
          const found = nodeAt(event);
          if (found !== undefined) setChosen(found.node_id);
        }}
        onClick={(event) => {
          const found = nodeAt(event);
          if (found !== undefined) open(found.node_id);
        }}
      >
        <div style={{ height: gridHeight(grid) }}>
          <canvas ref={canvas} className="node-cells-canvas" aria-hidden="true" />
          {active !== undefined && (
            <div
              id="node-cell-active"
              role="option"
              aria-selected="true"
              aria-posinset={index + 1}
              aria-setsize={nodes.length}
              className="only-read"
            >
              {described(active, text(active.status))}
            </div>
          )}
        </div>
      </div>
    </>
  );
}

function described(node: NodeRow, state: string): string {
  const reason = node.reason ? ` · ${node.reason}` : "";
  return `${node.node_id} · ${state} · ${node.used} / ${node.slots}${reason}`;
}

interface Sight {
  width: number;
  height: number;
  top: number;
  active: number | null;
}

function draw(
  canvas: HTMLCanvasElement,
  nodes: readonly NodeRow[],
  grid: ReturnType<typeof cellGrid>,
  { width, height, top, active }: Sight,
): void {
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  const scale = window.devicePixelRatio;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colors = Object.fromEntries(
    NODE_STATES.map((state) => [state, style.getPropertyValue(COLOR_NAMES[state])]),
  );
  const [first, end] = inSight(grid, top, height);
  for (let index = first; index < end; index += 1) {
    const node = nodes[index];
    if (node === undefined) continue;
    const x = (index % grid.columns) * PITCH_PX;
    const y = Math.floor(index / grid.columns) * PITCH_PX - top;
    const color = colors[node.status] ?? style.color;
    pen.strokeStyle = color;
    pen.fillStyle = color;
    pen.lineWidth = 1;
    pen.strokeRect(x + 1.5, y + 1.5, SQUARE_PX, SQUARE_PX);
    // One that is away stays empty: its state shows without its colour, too.
    if (node.status !== "offline") {
      pen.globalAlpha = 0.3;
      pen.fillRect(x + 1.5, y + 1.5, SQUARE_PX, SQUARE_PX);
      pen.globalAlpha = 1;
      const filled = node.slots === 0 ? 0 : (SQUARE_PX * Math.min(node.used, node.slots)) / node.slots;
      pen.fillRect(x + 1.5, y + 1.5 + SQUARE_PX - filled, SQUARE_PX, filled);
    }
    if (index === active) {
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, SQUARE_PX + 1, SQUARE_PX + 1);
    }
  }
}
