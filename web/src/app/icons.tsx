/** Drawings beside the names of pages: strokes of the text's colour, in a square of 20. */
const DRAWINGS = {
  overview: "M3 11h5v6H3zM12 3h5v14h-5zM3 3h5v4H3z",
  pairs: "M3 6h13M13 3l3 3-3 3M17 14H4M7 11l-3 3 3 3",
  nodes: "M3 3h14v5H3zM3 12h14v5H3zM6 5.500h.01M6 14.500h.01",
  sessions: "M3 4h14v9H9l-4 4v-4H3z",
  jobs: "M4 5h12M4 10h12M4 15h7",
  talk: "M10 2.500a2.5 2.5 0 0 1 2.5 2.500v4a2.5 2.5 0 0 1-5 0V5A2.5 2.5 0 0 1 10 2.500zM4.5 9a5.5 5.5 0 0 0 11 0M10 14.500v3",
  lab: "M8 2.500v5L3.5 15a1.6 1.6 0 0 0 1.4 2.500h10.200a1.6 1.6 0 0 0 1.4-2.500L12 7.500v-5M6.5 2.500h7M6 12.500h8",
  cluster: "M10 3v4M10 7L5 13M10 7l5 6M8 3h4M3 13h4v4H3zM13 13h4v4h-4z",
  audit: "M5 2.500h7l3 3v12H5zM8 9h4M8 13h4",
  alerts: "M10 3a5 5 0 0 1 5 5c0 4 1.5 5 1.5 6h-13c0-1 1.5-2 1.5-6a5 5 0 0 1 5-5zM8.5 17h3",
  settings: "M3 6h7M14 6h3M10 4v4M3 14h3M10 14h7M6 12v4",
  api: "M7 5l-4 5 4 5M13 5l4 5-4 5",
  search: "M9 3.500a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM13 13l4 4",
  moon: "M16.5 12A7 7 0 0 1 8 3.500a7 7 0 1 0 8.5 8.500z",
  sun: "M10 6.500a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7zM10 1.500v2M10 16.500v2M1.5 10h2M16.5 10h2M4 4l1.4 1.400M14.6 14.600L16 16M4 16l1.4-1.400M14.6 5.400L16 4",
  signOut: "M8 3H4v14h4M12 6l4 4-4 4M16 10H8",
} as const;

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
