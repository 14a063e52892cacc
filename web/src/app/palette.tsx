import { createSpotlight, Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import { useNavigate } from "@tanstack/react-router";

import { useMe } from "../api/identity";
import { useText } from "../messages/text";
import { pagesFor } from "./pages";

const [store, palette] = createSpotlight();

export const openPalette = palette.open;

/** Ctrl+K: every page, by a few letters of its name. */
export function Palette() {
  const text = useText();
  const navigate = useNavigate();
  const actions: SpotlightActionData[] = pagesFor(useMe()).map((page) => ({
    id: page.path,
    label: text(page.title),
    onClick: () => {
      void navigate({ to: page.path });
    },
  }));
  return (
    <Spotlight
      store={store}
      actions={actions}
      shortcut="mod + K"
      nothingFound={text("nothingFound")}
      searchProps={{ placeholder: text("paletteHint"), "aria-label": text("palette") }}
    />
  );
}
