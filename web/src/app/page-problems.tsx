import { Alert, Anchor, Stack } from "@mantine/core";
import { Link, type ErrorComponentProps } from "@tanstack/react-router";

import { PageTitle } from "./page-title";
import { useText } from "../messages/text";

/** An address that no page has. */
export function NoSuchPage() {
  const text = useText();
  return (
    <Stack>
      <PageTitle>{text("noSuchPage")}</PageTitle>
      <Anchor renderRoot={(props) => <Link to="/" {...props} />}>{text("toOverview")}</Anchor>
    </Stack>
  );
}

/** A page that failed while it was shown. */
export function PageFailed({ error }: ErrorComponentProps) {
  return <ProblemAlert error={error instanceof Error ? error : new Error(String(error))} />;
}

/** What went wrong, in the server's own words where it has some. */
export function ProblemAlert({ error }: { error: Error }) {
  const text = useText();
  return (
    <Alert color="red" variant="outline" role="alert" title={text("somethingFailed")}>
      {error.message}
    </Alert>
  );
}
