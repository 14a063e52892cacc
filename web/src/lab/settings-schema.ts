/** One setting of a kind of target or evaluator, as a form shows it. */
export interface Setting {
  name: string;
  kind: "text" | "number" | "switch" | "choice" | "json";
  choices: readonly string[];
  isRequired: boolean;
  /** What holds where nothing is written, as text. */
  fallback: string;
}

/** A server takes no keys in settings, but the name of a variable of its own that holds one. */
const SECRET = "api_key";

type Schema = Readonly<Record<string, unknown>>;

/** What can be set, by the JSON-schema of the kind; required settings first. */
export function settingsOf(schema: Schema): readonly Setting[] {
  const root = resolved(schema, schema);
  const required = Array.isArray(root["required"]) ? (root["required"] as unknown[]) : [];
  const settings = Object.entries(asObject(root["properties"]))
    .filter(([name]) => name !== SECRET)
    .map(([name, property]) =>
      settingOf(name, resolved(asObject(property), schema), required.includes(name), schema),
    );
  return [...settings].sort((one, other) => Number(other.isRequired) - Number(one.isRequired));
}

function settingOf(name: string, property: Schema, isRequired: boolean, root: Schema): Setting {
  const parts = Array.isArray(property["anyOf"])
    ? (property["anyOf"] as unknown[]).map((part) => resolved(asObject(part), root))
    : [property];
  const types = parts.map((part) => String(part["type"])).filter((type) => type !== "null");
  const choices = parts.flatMap((part) =>
    Array.isArray(part["enum"]) ? (part["enum"] as unknown[]).map(String) : [],
  );
  const fallback = property["default"];
  return {
    name,
    kind: choices.length > 0 ? "choice" : kindOf(types),
    choices,
    isRequired,
    fallback: fallback == null ? "" : plainText(fallback),
  };
}

function kindOf(types: readonly string[]): Setting["kind"] {
  const [only, ...more] = [...new Set(types)];
  if (more.length > 0 && !(more.length === 1 && types.every(isNumeric))) {
    return types.includes("string") ? "text" : "json";
  }
  if (only === "string") return "text";
  if (only === "boolean") return "switch";
  return only !== undefined && isNumeric(only) ? "number" : "json";
}

function isNumeric(type: string): boolean {
  return type === "number" || type === "integer";
}

function plainText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What the schema refers to. */
function resolved(part: Schema, root: Schema): Schema {
  const reference = part["$ref"];
  if (typeof reference !== "string") return part;
  const name = reference.replace("#/$defs/", "");
  return asObject(asObject(root["$defs"])[name]);
}

function asObject(value: unknown): Schema {
  return typeof value === "object" && value !== null ? (value as Schema) : {};
}

/** Raised where a setting that is written as JSON is none. */
export class SettingProblem extends Error {
  readonly setting: string;

  constructor(setting: string) {
    super(setting);
    this.name = "SettingProblem";
    this.setting = setting;
  }
}

/** The settings as the API takes them; what was left empty is left out. */
export function settingsGiven(
  settings: readonly Setting[],
  written: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const setting of settings) {
    const text = written[setting.name] ?? "";
    if (text.trim() !== "") given[setting.name] = valueGiven(setting, text);
  }
  return given;
}

function valueGiven({ name, kind }: Setting, text: string): unknown {
  switch (kind) {
    case "text":
    case "choice":
      return text;
    case "switch":
      return text === "true";
    case "number":
      return Number(text);
    case "json":
      try {
        return JSON.parse(text);
      } catch {
        throw new SettingProblem(name);
      }
  }
}
