import { Anchor, Badge, Button, Card, Code, Group, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, type LinkProps } from "@tanstack/react-router";
import { useState } from "react";

import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import {
  fieldsOf,
  operationGroups,
  requestAddress,
  typeOf,
  type Field,
  type OpenApi,
  type Operation,
  type Schema,
} from "./openapi";

const route = getRouteApi("/open/docs");

/** The pages that show what the operations of a tag are about. */
const PAGES_OF_TAGS: Readonly<Record<string, NonNullable<LinkProps["to"]>>> = {
  cluster: "/cluster",
  datasets: "/lab/datasets",
  experiments: "/lab",
  jobs: "/jobs",
  nodes: "/nodes",
  pools: "/pairs",
  sessions: "/sessions",
  settings: "/settings",
  stats: "/",
};

/** Every route of the API, to read, and those that only look, to try. */
export function DocsPage() {
  const text = useText();
  const { q = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const document = useQuery({ queryKey: ["openapi"], queryFn: openApi, staleTime: Infinity });
  const groups = document.data ? operationGroups(document.data, q) : [];
  return (
    <Stack>
      <PageTitle>{text("apiPages")}</PageTitle>
      <Text>
        {text("apiHint")} <Anchor href="/openapi.json" underline="always">{"/openapi.json"}</Anchor>
      </Text>
      <TextInput
        {...SEARCH_FIELD}
        label={text("search")}
        value={q}
        onChange={(event) => {
          const { value } = event.currentTarget;
          void navigate({ search: value === "" ? {} : { q: value }, replace: true });
        }}
      />
      {document.isPending && <Loading />}
      {document.error && <ProblemAlert error={document.error} />}
      {document.data && groups.length === 0 && <Text>{text("nothingFound")}</Text>}
      {document.data &&
        groups.map(({ tag, operations }) => (
          <section key={tag} aria-labelledby={`tag-${tag}`}>
            <Group gap="sm">
              <Title order={2} size="h3" id={`tag-${tag}`}>
                {tag}
              </Title>
              {tag in PAGES_OF_TAGS && (
                <Anchor
                  size="sm"
                  renderRoot={(props) => <Link to={PAGES_OF_TAGS[tag] ?? "/"} {...props} />}
                >
                  {text("toItsPage")}
                </Anchor>
              )}
            </Group>
            <Stack gap="xs" mt="xs">
              {operations.map((operation) => (
                <OperationCard key={operation.id} operation={operation} document={document.data} />
              ))}
            </Stack>
          </section>
        ))}
    </Stack>
  );
}

async function openApi(): Promise<OpenApi> {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`/openapi.json: ${answer.status}`);
  return (await answer.json()) as OpenApi;
}

interface OperationProps {
  operation: Operation;
  document: OpenApi;
}

function OperationCard({ operation, document }: OperationProps) {
  const [isOpen, setIsOpen] = useState(() => location.hash === `#${operation.id}`);
  return (
    <Card withBorder padding="xs" id={operation.id}>
      <details
        open={isOpen}
        onToggle={(event) => {
          setIsOpen(event.currentTarget.open);
        }}
      >
        <summary className="operation">
          <Badge variant="default">{operation.method}</Badge>{" "}
          <Code>{operation.path}</Code> <Text span size="sm" lang="en">{operation.summary}</Text>
        </summary>
        {isOpen && <OperationBody operation={operation} document={document} />}
      </details>
    </Card>
  );
}

function OperationBody({ operation, document }: OperationProps) {
  const text = useText();
  return (
    <Stack gap="sm" mt="sm">
      <Anchor size="sm" href={`#${operation.id}`}>
        {text("linkToThis")}
      </Anchor>
      {operation.description !== "" && (
        <Text size="sm" className="value" lang="en">
          {operation.description}
        </Text>
      )}
      {operation.method === "GET" && <TryIt operation={operation} />}
      {operation.method !== "GET" && operation.parameters.length > 0 && (
        <FieldsTable
          document={document}
          title={text("parameters")}
          fields={operation.parameters.map(({ name, required, schema, description }) => ({
            name,
            isRequired: required ?? false,
            schema: { ...schema, ...(description !== undefined && { description }) },
          }))}
        />
      )}
      {operation.body !== null && (
        <SchemaShown document={document} title={text("requestBody")} schema={operation.body} />
      )}
      {operation.responses.map(({ status, schema }) => (
        <SchemaShown
          key={status}
          document={document}
          title={text("answerWith", { status })}
          schema={schema}
        />
      ))}
    </Stack>
  );
}

interface SchemaProps {
  document: OpenApi;
  title: string;
  schema: Schema | null;
}

function SchemaShown({ document, title, schema }: SchemaProps) {
  if (schema === null) return <Text size="sm">{title}</Text>;
  const fields = fieldsOf(document, schema);
  const named = `${title}: ${typeOf(document, schema)}`;
  if (fields === null) return <Text size="sm">{named}</Text>;
  return <FieldsTable document={document} title={named} fields={fields} />;
}

interface FieldsProps {
  document: OpenApi;
  title: string;
  fields: readonly Field[];
}

/** The fields of a thing; what is inside them is shown when it is asked for. */
function FieldsTable({ document, title, fields }: FieldsProps) {
  const text = useText();
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details
      onToggle={(event) => {
        setIsOpen(event.currentTarget.open);
        event.stopPropagation();
      }}
    >
      <summary>{title}</summary>
      {isOpen && (
        <Table.ScrollContainer minWidth={480}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("field")}</Table.Th>
                <Table.Th>{text("kind")}</Table.Th>
                <Table.Th>{text("description")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {fields.map(({ name, schema, isRequired }, index) => {
                const inside = fieldsOf(document, schema);
                return (
                  <Table.Tr key={`${name} ${index}`}>
                    <Table.Td>
                      <Code>{name}</Code>
                      {isRequired && ` (${text("required")})`}
                    </Table.Td>
                    <Table.Td className="fact">
                      {inside === null ? (
                        typeOf(document, schema)
                      ) : (
                        <FieldsTable
                          document={document}
                          title={typeOf(document, schema)}
                          fields={inside}
                        />
                      )}
                    </Table.Td>
                    <Table.Td className="value" lang="en">
                      {schema.description ?? ""}
                    </Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </details>
  );
}

interface Tried {
  address: string;
  status: number;
  body: string;
}

const SHOWN_CHARACTERS = 20_000;

/** Ask the server, with the reader's own rights. Only what changes nothing can be tried here. */
function TryIt({ operation }: { operation: Operation }) {
  const text = useText();
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [tried, setTried] = useState<Tried | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const parameters = operation.parameters.filter(({ in: place }) => place !== "header");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setError(null);
        askFor(requestAddress(operation, values)).then(setTried, setError);
      }}
    >
      <Stack gap="xs">
        {parameters.map(({ name, required, description }) => (
          <TextInput
            key={name}
            label={name}
            required={required ?? false}
            description={description}
            value={values[name] ?? ""}
            onChange={(event) => {
              const { value } = event.currentTarget;
              setValues((known) => ({ ...known, [name]: value }));
            }}
          />
        ))}
        <Group>
          <Button type="submit" size="xs" variant="default">
            {text("tryIt")}
          </Button>
        </Group>
        {error && <ProblemAlert error={error} />}
        {tried !== null && (
          <div role="status">
            <Text size="sm" className="fact">{`${tried.status} ${tried.address}`}</Text>
            <Code block className="value">
              {tried.body.slice(0, SHOWN_CHARACTERS)}
            </Code>
          </div>
        )}
      </Stack>
    </form>
  );
}

async function askFor(address: string): Promise<Tried> {
  const answer = await fetch(address);
  const body = await answer.text();
  return { address, status: answer.status, body: indented(body) };
}

function indented(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
