import { createTheme, type CSSVariablesResolver } from "@mantine/core";

/** Darker than the library's own, so that text on it and in it has the contrast of WCAG AA. */
export const theme = createTheme({
  primaryColor: "blue",
  primaryShade: { light: 8, dark: 8 },
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Noto Sans CJK SC", sans-serif',
  cursorType: "pointer",
  defaultRadius: "sm",
  components: {
    // A page has one banner, and it is not the head of a dialog.
    ModalHeader: { defaultProps: { component: "div" } },
  },
});

export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#5c636a",
    "--mantine-color-anchor": "#1864ab",
    "--mantine-color-placeholder": "#6b7178",
    "--mantine-color-error": "#c92a2a",
  },
  dark: {
    "--mantine-color-dimmed": "#a6adb4",
    "--mantine-color-anchor": "#74c0fc",
    "--mantine-color-placeholder": "#9aa0a6",
    "--mantine-color-error": "#ff8787",
  },
});
