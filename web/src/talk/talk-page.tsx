import { Group, NativeSelect, Stack, Switch, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { useDocumentTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { hasMicrophone } from "./microphone";
import { OnePerson } from "./one-person";
import {
  languagesOf,
  searchOfLanguages,
  talkSearchOf,
  type PauseFinder,
  type TalkLanguages,
} from "./talk-search";
import { TwoPeople } from "./two-people";

export interface TalkProps extends TalkLanguages {
  onChange: (changed: Partial<TalkLanguages>) => void;
  pauses: PauseFinder;
}

const route = getRouteApi("/shell/talk");

/** Speak or write, and read and hear it in other languages; alone, or two people face to face. */
export function TalkPage() {
  const text = useText();
  useDocumentTitle(text("talk"));
  const search = route.useSearch();
  const { people, pauses = "browser" } = search;
  const navigate = route.useNavigate();
  // What is typed stands in the field at once; the address follows.
  const [languages, setLanguages] = useState(() => languagesOf(search));
  const change = (changed: Partial<TalkLanguages>) => {
    const chosen = { ...languages, ...changed };
    setLanguages(chosen);
    const fresh = talkSearchOf({ ...search, ...searchOfLanguages(chosen) });
    void navigate({ search: fresh, replace: true });
  };
  const talk: TalkProps = { ...languages, onChange: change, pauses };
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1}>{text("talk")}</Title>
        <Group align="end">
          {hasMicrophone() && (
            <NativeSelect
              label={text("pausesFoundBy")}
              value={pauses}
              data={[
                { value: "browser", label: text("byBrowser") },
                { value: "server", label: text("byServer") },
              ]}
              onChange={(event) => {
                const chosen = { pauses: event.currentTarget.value };
                void navigate({ search: talkSearchOf({ ...search, ...chosen }) });
              }}
            />
          )}
          <Switch
            label={text("twoPeople")}
            checked={people === 2}
            onChange={(event) => {
              const chosen = { people: event.currentTarget.checked ? 2 : 1 };
              void navigate({ search: talkSearchOf({ ...search, ...chosen }) });
            }}
          />
        </Group>
      </Group>
      {people === 2 ? <TwoPeople {...talk} /> : <OnePerson {...talk} />}
    </Stack>
  );
}
