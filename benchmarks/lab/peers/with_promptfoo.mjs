// The same experiment with promptfoo: `node with_promptfoo.mjs FOLDER ITEMS CONCURRENCY`, where
// FOLDER is the one promptfoo is installed in. Results are written to its database, as by its
// command line.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, items, concurrency] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const installed = createRequire(`${folder}/package.json`).resolve('promptfoo');
const promptfoo = await import(pathToFileURL(installed));

const texts = Array.from({ length: items }, (_, number) => `sentence ${number}`);
const tests = texts.map((text) => ({ vars: { text }, assert: [{ type: 'equals', value: text }] }));
const echo = async (prompt, context) => ({ output: context.vars.text });

const began = performance.now();
const cpuBegan = process.cpuUsage();
const done = await promptfoo.evaluate(
  { prompts: ['{{text}}'], providers: [echo], tests, writeLatestResults: true },
  { maxConcurrency: concurrency, cache: false, showProgressBar: false },
);
const seconds = (performance.now() - began) / 1000;
const cpu = process.cpuUsage(cpuBegan);
const { stats } = await done.toEvaluateSummary();
if (stats.successes !== items) {
  throw new Error(`Only ${stats.successes} of ${items} items went well.`);
}
const peak = readFileSync('/proc/self/status', 'utf8').match(/VmHWM:\s+(\d+)/)[1];
console.log(
  JSON.stringify({
    items,
    seconds,
    cpu_seconds: (cpu.user + cpu.system) / 1e6,
    peak_megabytes: Number(peak) / 1024,
  }),
);
process.exit(0); // it leaves timers behind
