import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";

import { queryClient } from "../api/queries";
import { TextProvider } from "../messages/text";
import { router } from "./router";
import { styleNonce } from "./style-nonce";
import { cssVariables, theme } from "./theme";

/** The whole program: theme, language, data, pages. */
export function Console() {
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      defaultColorScheme="auto"
      getStyleNonce={styleNonce}
    >
      <TextProvider>
        <QueryClientProvider client={queryClient}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </TextProvider>
    </MantineProvider>
  );
}
