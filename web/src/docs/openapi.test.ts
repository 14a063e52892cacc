import { expect, test } from "vitest";

import { fieldsOf, operationGroups, requestAddress, typeOf, type OpenApi } from "./openapi";

const document: OpenApi = {
  paths: {
    "/nodes": {
      get: {
        operationId: "list",
        summary: "Every node",
        tags: ["nodes"],
        parameters: [{ name: "limit", in: "query", schema: { type: "integer" } }],
        responses: { "200": { content: { "application/json": { schema: { $ref: "#/x/Page" } } } } },
      },
    },
    "/nodes/{id}": {
      delete: {
        tags: ["nodes"],
        summary: "Forget a node",
        parameters: [
          { name: "id", in: "path", required: true },
          { name: "why", in: "query" },
        ],
      },
    },
    "/jobs": { post: { tags: ["jobs"], summary: "Send a job" } },
  },
  components: {
    schemas: {
      Page: { type: "object", properties: { items: { type: "array", items: { $ref: "#/x/Node" } } } },
      Node: {
        type: "object",
        required: ["id"],
        properties: {
          id: { type: "string" },
          state: { enum: ["ready", "offline"] },
          next: { anyOf: [{ $ref: "#/x/Node" }, { type: "null" }] },
        },
      },
    },
  },
};

test("operations are grouped by tag and found by every word", () => {
  const tags = (search: string) =>
    operationGroups(document, search).map(({ tag, operations }) => [tag, operations.length]);
  expect(tags("")).toEqual([
    ["nodes", 2],
    ["jobs", 1],
  ]);
  expect(tags("DELETE nodes")).toEqual([["nodes", 1]]);
  expect(tags("nothing like it")).toEqual([]);
});

test("a schema is told in a few words, and its fields are found through references", () => {
  const page = { $ref: "#/x/Page" };
  expect(typeOf(document, page)).toBe("Page");
  const [items] = fieldsOf(document, page) ?? [];
  expect(items && typeOf(document, items.schema)).toBe("Node[]");
  const fields = items ? fieldsOf(document, items.schema) : null;
  expect(fields?.map(({ name, isRequired }) => [name, isRequired])).toEqual([
    ["id", true],
    ["state", false],
    ["next", false],
  ]);
  expect(fields?.[1] && typeOf(document, fields[1].schema)).toBe('"ready" | "offline"');
  expect(fields?.[2] && typeOf(document, fields[2].schema)).toBe("Node | null");
  expect(fieldsOf(document, { type: "string" })).toBeNull();
});

test("parameters go where they belong, written so that they stay one part", () => {
  const [group] = operationGroups(document, "delete");
  const [operation] = group?.operations ?? [];
  expect(operation && requestAddress(operation, { id: "a/b", why: "" })).toBe("/nodes/a%2Fb");
  expect(operation && requestAddress(operation, { id: "a", why: "x y" })).toBe("/nodes/a?why=x+y");
});
