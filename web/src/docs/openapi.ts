/** As much of an OpenAPI document as the page shows. */
export interface Schema {
  $ref?: string;
  type?: string;
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  allOf?: readonly Schema[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  description?: string;
  default?: unknown;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

interface Content {
  content?: Readonly<Record<string, { schema?: Schema }>>;
  description?: string;
}

interface RawOperation {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: readonly string[];
  parameters?: readonly Parameter[];
  requestBody?: Content;
  responses?: Readonly<Record<string, Content>>;
}

export interface OpenApi {
  paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>;
  components?: { schemas?: Readonly<Record<string, Schema>> };
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string;
  parameters: readonly Parameter[];
  body: Schema | null;
  responses: readonly { status: string; schema: Schema | null }[];
}

export interface OperationGroup {
  tag: string;
  operations: readonly Operation[];
}

/** The operations by their tags, in the order of the document; those that mention every word. */
export function operationGroups(document: OpenApi, search: string): readonly OperationGroup[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Operation[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, raw] of Object.entries(methods)) {
      const tag = raw.tags?.[0] ?? "";
      const operation = operationOf(path, method, raw);
      const said = `${method} ${path} ${operation.summary} ${tag}`.toLowerCase();
      if (!words.every((word) => said.includes(word))) continue;
      const known = groups.get(tag);
      if (known === undefined) groups.set(tag, [operation]);
      else known.push(operation);
    }
  }
  return [...groups].map(([tag, operations]) => ({ tag, operations }));
}

function operationOf(path: string, method: string, raw: RawOperation): Operation {
  return {
    id: raw.operationId ?? `${method}-${path}`,
    method: method.toUpperCase(),
    path,
    summary: raw.summary ?? "",
    description: raw.description ?? "",
    parameters: raw.parameters ?? [],
    body: raw.requestBody === undefined ? null : schemaOf(raw.requestBody),
    responses: Object.entries(raw.responses ?? {}).map(([status, content]) => ({
      status,
      schema: schemaOf(content),
    })),
  };
}

function schemaOf({ content }: Content): Schema | null {
  return Object.values(content ?? {})[0]?.schema ?? null;
}

/** What a schema refers to, with what stands beside the reference. */
export function resolved(document: OpenApi, schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const name = schema.$ref.split("/").at(-1) ?? "";
  return { ...document.components?.schemas?.[name], ...withoutRef(schema) };
}

function withoutRef(schema: Schema): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== "$ref"));
}

/** A schema's type in a few words, such as `string | null`. */
export function typeOf(document: OpenApi, schema: Schema): string {
  const name = schema.$ref?.split("/").at(-1);
  const whole = resolved(document, schema);
  if (whole.enum !== undefined) return whole.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (whole.const !== undefined) return JSON.stringify(whole.const);
  const choices = whole.anyOf ?? whole.oneOf;
  if (choices !== undefined && whole.properties === undefined) {
    return [...new Set(choices.map((choice) => typeOf(document, choice)))].join(" | ");
  }
  if (whole.type === "array") {
    return whole.items === undefined ? "array" : `${typeOf(document, whole.items)}[]`;
  }
  return name ?? whole.type ?? "any";
}

/** The fields of a schema, or of what its list or its choice holds; null where it has none. */
export function fieldsOf(document: OpenApi, schema: Schema): readonly Field[] | null {
  const whole = resolved(document, schema);
  if (whole.properties !== undefined) {
    const required = new Set(whole.required);
    return Object.entries(whole.properties).map(([name, field]) => ({
      name,
      schema: field,
      isRequired: required.has(name),
    }));
  }
  const inside = [
    ...(whole.items === undefined ? [] : [whole.items]),
    ...(whole.anyOf ?? whole.oneOf ?? whole.allOf ?? []),
    ...(typeof whole.additionalProperties === "object" ? [whole.additionalProperties] : []),
  ];
  const found = inside.flatMap((one) => fieldsOf(document, one) ?? []);
  return found.length === 0 ? null : found;
}

export interface Field {
  name: string;
  schema: Schema;
  isRequired: boolean;
}

/** The address of a request, with its parameters where they belong; empty ones are left out. */
export function requestAddress(
  operation: Operation,
  values: Readonly<Record<string, string>>,
): string {
  let path = operation.path;
  const query = new URLSearchParams();
  for (const { name, in: place } of operation.parameters) {
    const value = values[name] ?? "";
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "query" && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}
