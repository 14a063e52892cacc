/** A build step: beside each file lies what the server sends to browsers that take it compressed. */

import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

import type { Plugin } from "vite";

/** Below this size a compressed form saves less than its header costs. */
const SMALLEST_BYTES = 512;

const COMPRESSORS = {
  ".br": (content: Buffer) =>
    promisify(brotliCompress)(content, {
      params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY },
    }),
  ".gz": (content: Buffer) => promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION }),
};

export function compressedBeside(): Plugin {
  let assets = "";
  return {
    name: "compressed-beside",
    apply: "build",
    configResolved(config) {
      assets = join(config.root, config.build.outDir, config.build.assetsDir);
    },
    async closeBundle() {
      for (const name of await readdir(assets)) {
        const content = await readFile(join(assets, name));
        if (content.length < SMALLEST_BYTES || name.endsWith(".woff2")) continue;
        for (const [ending, compress] of Object.entries(COMPRESSORS)) {
          await writeFile(join(assets, name + ending), await compress(content));
        }
      }
    },
  };
}
