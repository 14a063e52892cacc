import { Group, Stack, Switch, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useText } from "../messages/text";
import { OnePerson } from "./one-person";
import { TwoPeople } from "./two-people";

const route = getRouteApi("/shell/talk");

/** Speak or write, and read and hear it in other languages; alone, or two people face to face. */
export function TalkPage() {
  const text = useText();
  const { people } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1}>{text("talk")}</Title>
        <Switch
          label={text("twoPeople")}
          checked={people === 2}
          onChange={(event) => {
            void navigate({ search: event.currentTarget.checked ? { people: 2 } : {} });
          }}
        />
      </Group>
      {people === 2 ? <TwoPeople /> : <OnePerson />}
    </Stack>
  );
}
