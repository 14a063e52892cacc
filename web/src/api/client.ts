import createClient from "openapi-fetch";

import type { paths } from "./schema";

/** The public API of the server that this page came from. */
export const api = createClient<paths>({ baseUrl: "/" });

let keptToken: string | null = null;

/** What the server gave the page to vouch for its changes; null where no cookie is used. */
export function csrfToken(): string | null {
  return keptToken;
}

export function setCsrfToken(token: string | null): void {
  keptToken = token;
}

api.use({
  onRequest({ request }) {
    if (request.method !== "GET" && keptToken !== null) {
      request.headers.set("X-CSRF-Token", keptToken);
    }
    return request;
  },
});

/** A refusal of the server, with its code and its sentence for people. */
export class Problem extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status: number) {
    super(message);
    this.name = "Problem";
    this.code = code;
    this.status = status;
  }
}

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer; a refusal is thrown as a `Problem`. */
export async function answerOf<T>(asked: Promise<Answered<T>>): Promise<NonNullable<T>> {
  const { data, error, response } = await asked;
  if (data !== undefined && data !== null) return data;
  throw problemOf(error, response.status);
}

/** What an answer that is no success says. */
export function problemOf(body: unknown, status: number): Problem {
  if (typeof body === "object" && body !== null && "error" in body) {
    const { error } = body;
    if (typeof error === "object" && error !== null && "code" in error && "message" in error) {
      return new Problem(String(error.code), String(error.message), status);
    }
  }
  return new Problem("UNKNOWN", `The server answered with status ${status}.`, status);
}
