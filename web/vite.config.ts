import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

import { compressedBeside } from "./build/compressed-beside.ts";
import { licences } from "./build/licences.ts";

/** Where `npm run dev` finds a running server. */
const SERVER = process.env["DRAGOMAN_URL"] ?? "http://127.0.0.1:8080";

const CLIENT = "../clients/typescript/src/index.ts";

export default defineConfig({
  resolve: {
    alias: { "@dragoman/client": fileURLToPath(new URL(CLIENT, import.meta.url)) },
  },
  plugins: [react(), licences(), compressedBeside()],
  build: {
    outDir: "../src/dragoman/api/console/built",
    emptyOutDir: true,
    // The policy of the pages allows no data: addresses.
    assetsInlineLimit: 0,
    target: "es2023",
    // The component library and React are most of the first page; the bound is tests/browser's.
    chunkSizeWarningLimit: 1000,
  },
  server: {
    proxy: {
      "^/(api|openapi\\.json|healthz|readyz)": { target: SERVER },
      "/ws": { target: SERVER, ws: true },
    },
  },
  test: { include: ["src/**/*.test.ts"] },
});
