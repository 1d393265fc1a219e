#!/usr/bin/env node
// Starts the command in the Node that scripts/bootstrap.mjs uses. Plain JavaScript for Node 18 and newer.

import { spawn } from 'node:child_process';
import * as crypto from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const main = join(dirname(dirname(fileURLToPath(import.meta.url))), 'src', 'main.ts');
/** Compile cache of Node: it halves the start. */
const compileCache = join(root, '.data', 'compile-cache');

if (isNewEnough()) {
  module.enableCompileCache?.(compileCache);
  await import(pathToFileURL(main).href);
} else startIn(fetchedNode());

function isNewEnough() {
  // randomUUIDv7 came with Node 24.16, the oldest version that the code runs on.
  return Number.parseInt(process.versions.node, 10) >= 24 && typeof crypto.randomUUIDv7 === 'function';
}

/** Finds the Node that the bootstrap fetched; undefined if none. */
function fetchedNode() {
  const home = join(root, '.data', 'node');
  if (!existsSync(home)) return undefined;
  const isWindows = process.platform === 'win32';
  const name = `node-${isWindows ? 'win' : process.platform}-${process.arch}`;
  return readdirSync(home)
    .map((version) => join(home, version, 'node_modules', name, 'bin', isWindows ? 'node.exe' : 'node'))
    .find((path) => existsSync(path));
}

function startIn(node) {
  if (node === undefined) {
    process.stderr.write(
      `nightshift needs Node 24.16 or newer, and this is ${process.versions.node}. ` +
        'Run npm start once, which fetches it, or install it from https://nodejs.org.\n',
    );
    process.exit(2);
  }
  const env = { NODE_COMPILE_CACHE: compileCache, ...process.env };
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`Cannot run ${node}: ${error.message}\n`);
    process.exit(2);
  });
  child.on('close', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}
