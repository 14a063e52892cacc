import { Text } from "@mantine/core";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";

import { queryClient } from "../api/queries";
import type { Connection } from "../live/console-socket";
import { useText } from "../messages/text";

/** Whether what is shown is live; a reader who was signed out elsewhere is asked to sign in. */
export function LiveMark({ connection }: { connection: Connection }) {
  const text = useText();
  const navigate = useNavigate();
  const next = useRouterState({ select: ({ location }) => location.href });
  useEffect(() => {
    if (connection !== "signed-out") return;
    queryClient.clear();
    void navigate({ to: "/sign-in", search: { next } });
  }, [connection, navigate, next]);
  return (
    <Text
      size="sm"
      role="status"
      className="live-mark"
      mod={{ connection }}
      {...(connection === "lost" && { fw: 700, c: "var(--mantine-color-error)" })}
    >
      {connection !== "idle" && text(connection)}
    </Text>
  );
}
