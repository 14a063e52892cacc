/**
 * The filter language as people write it, such as `score.chrf < 30 and status = "success"`, and the
 * tree of it that the API takes. A filter that begins with `{` is the tree itself, as JSON.
 */
export const OPERATORS = [
  "=",
  "!=",
  "<",
  "<=",
  ">",
  ">=",
  "in",
  "not_in",
  "contains",
  "not_contains",
  "matches",
  "is_null",
  "not_null",
] as const;
export type Operator = (typeof OPERATORS)[number];

export type Value = string | number | boolean;

export interface Condition {
  field: string;
  op: Operator;
  value?: Value | readonly Value[];
}

export type Filter = Condition | { and: Filter[] } | { or: Filter[] } | { not: Filter };

/** Raised where a filter cannot be read. */
export class FilterProblem extends Error {
  /** Where in the text, from 0. */
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.name = "FilterProblem";
    this.at = at;
  }
}

const WITHOUT_VALUE: readonly Operator[] = ["is_null", "not_null"];
const LISTS: readonly Operator[] = ["in", "not_in"];

const TOKEN =
  /\s*(?:(?<sign><=|>=|!=|=|<|>|\(|\)|,)|(?<text>"(?:[^"\\]|\\.)*")|`(?<quoted>[^`]+)`|(?<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))|(?<word>[^\s()<>=!,"`]+))/uy;

interface Token {
  kind: "sign" | "text" | "quoted" | "number" | "word";
  text: string;
  at: number;
}

/** The tree of a filter; null of an empty one. Throws `FilterProblem`. */
export function readFilter(source: string): Filter | null {
  const trimmed = source.trim();
  if (trimmed === "") return null;
  if (trimmed.startsWith("{")) return readTree(trimmed);
  const reader = new Reader(tokensOf(source), source.length);
  const found = reader.either();
  reader.end();
  return found;
}

/** What is wrong with a filter; null where nothing is. */
export function filterProblem(source: string): FilterProblem | null {
  try {
    readFilter(source);
    return null;
  } catch (error) {
    if (error instanceof FilterProblem) return error;
    throw error;
  }
}

function readTree(source: string): Filter {
  try {
    return JSON.parse(source) as Filter;
  } catch {
    throw new FilterProblem("This is no JSON.", 0);
  }
}

function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.trimEnd().length) {
    const at = TOKEN.lastIndex;
    const groups = TOKEN.exec(source)?.groups;
    if (groups === undefined) throw new FilterProblem(`Not understood: ${source.slice(at)}`, at);
    for (const kind of ["sign", "text", "quoted", "number", "word"] as const) {
      const text = groups[kind];
      if (text !== undefined) tokens.push({ kind, text, at });
    }
  }
  return tokens;
}

class Reader {
  private place = 0;

  constructor(
    private readonly tokens: readonly Token[],
    private readonly length: number,
  ) {}

  either(): Filter {
    const parts = [this.both()];
    while (this.takes("or")) parts.push(this.both());
    return parts.length === 1 && parts[0] ? parts[0] : { or: parts };
  }

  end(): void {
    const left = this.tokens[this.place];
    if (left !== undefined) throw new FilterProblem(`Not expected here: ${left.text}`, left.at);
  }

  private both(): Filter {
    const parts = [this.one()];
    while (this.takes("and")) parts.push(this.one());
    return parts.length === 1 && parts[0] ? parts[0] : { and: parts };
  }

  private one(): Filter {
    if (this.takes("not")) return { not: this.one() };
    if (this.takes("(")) {
      const inner = this.either();
      this.expect(")");
      return inner;
    }
    return this.condition();
  }

  private condition(): Condition {
    const field = this.next("a field");
    if (field.kind !== "word" && field.kind !== "quoted") {
      throw new FilterProblem(`A field was expected, not ${field.text}`, field.at);
    }
    const op = this.operator();
    if (WITHOUT_VALUE.includes(op)) return { field: field.text, op };
    if (!LISTS.includes(op)) return { field: field.text, op, value: this.value() };
    this.expect("(");
    const values = [this.value()];
    while (this.takes(",")) values.push(this.value());
    this.expect(")");
    return { field: field.text, op, value: values };
  }

  private operator(): Operator {
    const token = this.next("an operator");
    let name = token.kind === "sign" || token.kind === "word" ? token.text : "";
    if (name === "not" || name === "is") name = `${name}_${this.next("an operator").text}`;
    const known = OPERATORS.find((one) => one === name);
    if (known === undefined) {
      throw new FilterProblem(`An operator was expected, not ${token.text}`, token.at);
    }
    return known;
  }

  private value(): Value {
    const token = this.next("a value");
    switch (token.kind) {
      case "number":
        return Number(token.text);
      case "text":
        return textIn(token);
      case "word":
        return token.text === "true" || token.text === "false" ? token.text === "true" : token.text;
      case "sign":
      case "quoted":
        throw new FilterProblem(`A value was expected, not ${token.text}`, token.at);
    }
  }

  private takes(text: string): boolean {
    const token = this.tokens[this.place];
    const found =
      token !== undefined && (token.kind === "word" || token.kind === "sign") && token.text === text;
    if (found) this.place += 1;
    return found;
  }

  private expect(text: string): void {
    const token = this.tokens[this.place];
    if (!this.takes(text)) {
      throw new FilterProblem(`${text} was expected`, token?.at ?? this.length);
    }
  }

  private next(what: string): Token {
    const token = this.tokens[this.place];
    if (token === undefined) throw new FilterProblem(`${what} is missing`, this.length);
    this.place += 1;
    return token;
  }
}

function textIn(token: Token): string {
  try {
    return JSON.parse(token.text) as string;
  } catch {
    throw new FilterProblem(`Not a text: ${token.text}`, token.at);
  }
}

/** A filter as people write it. */
export function filterText(filter: Filter): string {
  return written(filter, false);
}

function written(filter: Filter, isInside: boolean): string {
  if ("and" in filter) return joined(filter.and, "and", isInside);
  if ("or" in filter) return joined(filter.or, "or", isInside);
  if ("not" in filter) return `not ${written(filter.not, true)}`;
  const { field, op, value } = filter;
  const name = /^[^\s()<>=!,"`]+$/u.test(field) && !WORDS.includes(field) ? field : `\`${field}\``;
  const told = `${name} ${op.replace("_", " ")}`;
  if (value === undefined) return told;
  if (typeof value === "object") return `${told} (${value.map(valueText).join(", ")})`;
  return `${told} ${valueText(value)}`;
}

const WORDS: readonly string[] = ["and", "or", "not"];

function joined(parts: readonly Filter[], word: "and" | "or", isInside: boolean): string {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return written(only, isInside);
  const text = parts.map((part) => written(part, true)).join(` ${word} `);
  return isInside ? `(${text})` : text;
}

function valueText(value: Value): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** The conditions that all hold, each for itself. */
export function partsOf(filter: Filter | null): readonly Filter[] {
  if (filter === null) return [];
  return "and" in filter ? filter.and : [filter];
}

/** The text of the filter that all of these make. */
export function textOfParts(parts: readonly Filter[]): string {
  return parts.length === 0 ? "" : filterText({ and: [...parts] });
}
