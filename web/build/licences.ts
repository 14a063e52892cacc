/** A build step: the pages' own copy of the licences of everything that is in them. */

import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";

import type { Plugin } from "vite";

const FILE_NAME = "licences.txt";

const PACKAGES_FOLDER = "/node_modules/";
const LICENCE_FILE = /^(licen[cs]e|copying|notice|ofl)\b/i;

const RULE = "-".repeat(80);

const OPENING = `The console contains these packages. Each is under its own licence, as follows.
Dragoman itself is under the Apache License 2.0.
`;

/** For packages that name it and forget its text. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

interface Manifest {
  name: string;
  version: string;
  author?: string | { name: string };
  license?: string;
  homepage?: string;
}

export function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    async generateBundle() {
      const folders = new Set<string>();
      for (const id of this.getModuleIds()) {
        const folder = packageFolder(id);
        if (folder !== null) folders.add(folder);
      }
      const entries = await Promise.all([...folders].sort().map(entryOf));
      this.emitFile({
        type: "asset",
        fileName: FILE_NAME,
        source: [OPENING, ...new Set(entries)].join(`\n${RULE}\n\n`),
      });
    },
  };
}

/** The folder of the package that a module belongs to; null for a module of our own. */
function packageFolder(moduleId: string): string | null {
  const path = moduleId.replace(/^\0/, "").replace(/[?#].*$/, "");
  const at = path.lastIndexOf(PACKAGES_FOLDER);
  if (at < 0 || !path.startsWith("/")) return null;
  const below = path.slice(at + PACKAGES_FOLDER.length).split("/");
  const name = below.slice(0, below[0]?.startsWith("@") ? 2 : 1).join("/");
  return path.slice(0, at + PACKAGES_FOLDER.length) + name;
}

async function entryOf(folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf-8")) as Manifest;
  const names = (await readdir(folder)).filter((name) => LICENCE_FILE.test(name)).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), "utf-8")));
  if (texts.length === 0) texts.push(textWithoutFile(manifest));
  const head = [`${manifest.name} ${manifest.version}`, manifest.license, manifest.homepage];
  return [head.filter(Boolean).join("\n"), ...texts.map((text) => text.trim()), ""].join("\n\n");
}

function textWithoutFile({ name, license, author }: Manifest): string {
  const holder = typeof author === "object" ? author.name : author;
  if (license === "MIT" && holder !== undefined) return `Copyright (c) ${holder}\n\n${MIT}`;
  throw new Error(`${name} comes without the text of its licence: put it into build/licences.ts.`);
}
