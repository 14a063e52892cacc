import { createTheme, type CSSVariablesResolver } from "@mantine/core";

/** Darker than the library's own, so that text on it and in it has the contrast of WCAG AA. */
export const theme = createTheme({
  primaryColor: "blue",
  primaryShade: { light: 8, dark: 8 },
  fontFamily:
    '"Inter Variable", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif',
  fontSizes: { md: "0.875rem" },
  headings: {
    fontWeight: "650",
    sizes: {
      h1: { fontSize: "1.5rem", lineHeight: "1.35" },
      h2: { fontSize: "1rem", lineHeight: "1.5" },
      h3: { fontSize: "0.9375rem", lineHeight: "1.5" },
      h4: { fontSize: "1rem", lineHeight: "1.5" },
    },
  },
  colors: {
    // Slate instead of the library's neutral greys: cards stand out of the page by a step.
    dark: [
      "#d6dce4",
      "#b3bcc8",
      "#8b96a5",
      "#667180",
      "#3b4552",
      "#2b343f",
      "#222a34",
      "#181e26",
      "#10151b",
      "#0b0f14",
    ],
  },
  cursorType: "pointer",
  defaultRadius: "md",
  components: {
    // A page has one banner, and it is not the head of a dialog.
    ModalHeader: { defaultProps: { component: "div" } },
    Card: { defaultProps: { padding: "md" } },
    Progress: { defaultProps: { radius: "xl" } },
    Badge: { defaultProps: { tt: "none", fw: 600 } },
  },
});

export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--page": "#f5f7f9",
    "--line": "#dfe4ea",
    "--chosen": "#e7f1fb",
    "--mantine-color-dimmed": "#58616b",
    "--mantine-color-anchor": "#1864ab",
    "--mantine-color-placeholder": "#6b7178",
    "--mantine-color-error": "#c92a2a",
    "--mantine-color-text": "#151b23",
    "--mantine-color-default-border": "#d3dae1",
  },
  dark: {
    "--page": "#10151b",
    "--line": "#2b343f",
    "--chosen": "#16293a",
    "--mantine-color-dimmed": "#a6b0bc",
    "--mantine-color-anchor": "#74c0fc",
    "--mantine-color-placeholder": "#98a2ae",
    "--mantine-color-error": "#ff8787",
    "--mantine-color-text": "#dfe5ec",
  },
});
