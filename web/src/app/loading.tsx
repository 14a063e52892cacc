import { Loader } from "@mantine/core";

import { useText } from "../messages/text";

/** What stands in for content that is on its way; a screen reader is told so too. */
export function Loading() {
  const text = useText();
  return <Loader role="status" aria-label={text("loading")} />;
}
