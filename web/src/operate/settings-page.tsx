import { Anchor, Code, Group, Stack, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { answerOf, api } from "../api/client";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { useFormats } from "../app/formats";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { filteredSettings, type SettingsSearch } from "./settings-search";

const route = getRouteApi("/shell/settings");

/** Every setting as this server has it, and where its value came from. */
export function SettingsPage() {
  const text = useText();
  const formats = useFormats();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const settings = useQuery({
    queryKey: ["settings"],
    queryFn: () => answerOf(api.GET("/api/v1/settings")),
  });
  const all = settings.data?.items ?? [];
  const shown = filteredSettings(all, search);
  const change = ({ q = search.q, given = search.given }: SettingsSearch) => {
    void navigate({ search: { ...(q && { q }), ...(given && { given }) }, replace: true });
  };
  return (
    <Stack>
      <PageTitle>{text("settings")}</PageTitle>
      {settings.isPending && <Loading />}
      {settings.error && <ProblemAlert error={settings.error} />}
      {settings.data && (
        <>
          <Group align="end">
            <TextInput
              {...SEARCH_FIELD}
              label={text("search")}
              value={search.q ?? ""}
              onChange={(event) => {
                change({ q: event.currentTarget.value });
              }}
            />
            <Switch
              label={text("onlyGiven")}
              checked={search.given ?? false}
              onChange={(event) => {
                change({ given: event.currentTarget.checked });
              }}
            />
            <Text c="dimmed" size="sm" role="status">
              {text("countOf", {
                count: formats.number(shown.length),
                total: formats.number(all.length),
              })}
            </Text>
          </Group>
          <Table.ScrollContainer minWidth={700}>
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{text("name")}</Table.Th>
                  <Table.Th>{text("value")}</Table.Th>
                  <Table.Th>{text("source")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {shown.map((setting) => (
                  <Table.Tr key={setting.name}>
                    <Table.Td>
                      <Text size="sm" fw={600}>
                        {setting.name}
                      </Text>
                      <Text size="xs" c="dimmed" lang="en">
                        {setting.meaning}
                      </Text>
                    </Table.Td>
                    <Table.Td className="fact">
                      <Code>{JSON.stringify(setting.value)}</Code>
                    </Table.Td>
                    <Table.Td className="fact">
                      {setting.source === "default" ? text("byDefault") : setting.source}
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
          <Anchor href="/licences.txt" size="sm" target="_blank">
            {text("licencesOfPages")}
          </Anchor>
        </>
      )}
    </Stack>
  );
}
