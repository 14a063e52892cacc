import { Alert, Button, Card, Center, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { signIn } from "../api/identity";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";

const route = getRouteApi("/sign-in");

/** Where the server asks for keys: one key, and back to the page that was wanted. */
export function SignInPage() {
  const text = useText();
  const router = useRouter();
  const { next, refused } = route.useSearch();
  const ways = useQuery({
    queryKey: ["sign-in-ways"],
    queryFn: () => answerOf(api.GET("/api/v1/sign-in/ways")),
  });
  const [key, setKey] = useState("");
  const entering = useMutation({
    mutationFn: signIn,
    onSuccess: () => {
      router.history.push(next ?? "/");
    },
  });
  return (
    <Center mih="100vh" component="main">
      <Card withBorder w={420} maw="95vw">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            entering.mutate(key);
          }}
        >
          <Stack>
            <PageTitle>{text("signIn")}</PageTitle>
            <Text c="dimmed" size="sm">
              {text("signInHint")}
            </Text>
            <PasswordInput
              label={text("key")}
              autoComplete="current-password"
              required
              value={key}
              onChange={(event) => {
                setKey(event.currentTarget.value);
              }}
              visibilityToggleButtonProps={{ "aria-label": text("showKey") }}
            />
            {entering.error && (
              <Alert color="red" variant="outline" role="alert">
                {entering.error.message}
              </Alert>
            )}
            <Button type="submit" loading={entering.isPending}>
              {text("signIn")}
            </Button>
            {refused !== undefined && (
              <Alert color="red" variant="outline" role="alert">
                {text(refused === "FORBIDDEN" ? "providerNoRole" : "providerRefused")}
              </Alert>
            )}
            {ways.data?.oidc && (
              <Button
                component="a"
                variant="default"
                href={`/api/v1/sign-in/oidc?next=${encodeURIComponent(next ?? "/")}`}
              >
                {text("signInWith", { provider: ways.data.oidc })}
              </Button>
            )}
          </Stack>
        </form>
      </Card>
    </Center>
  );
}
