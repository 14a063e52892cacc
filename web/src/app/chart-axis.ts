/** The ink of a chart's axes in the light or the dark theme. */
export function chartAxis(scheme: "light" | "dark") {
  const ink = scheme === "dark" ? "#c9d1d9" : "#343a40";
  return { stroke: ink, grid: { stroke: `${ink}22` }, ticks: { stroke: `${ink}44` } };
}
