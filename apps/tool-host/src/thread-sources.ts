import { readFile, realpath } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compileFunction } from 'node:vm';

/** ES modules by URL, those in TypeScript with their types removed. No large ones in JavaScript. */
export type ThreadSources = ReadonlyMap<string, string>;

const THREAD_FILE = fileURLToPath(new URL('./thread.ts', import.meta.url));
const RELATIVE_IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+\.(?:ts|m?js))['"]/g;
const MODULE_SYNTAX = /\b(?:export|import)\b/;
/** Each thread holds all sources for as long as it lives, in the memory that its tools have: a few bundles would fill it. */
const JAVASCRIPT_BYTES_MAX = 256 * 1024;
/** What Node passes to the function that it makes of a CommonJS module. */
const COMMONJS_PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];

/**
 * Reads the threads' own code, these files, and what they import by a relative path, so that threads which start later
 * have the same modules, and removes the types of what is TypeScript: a thread that does it loads a compiler first, which
 * takes ten megabytes and twice the time of the rest of its start. Never rejects: what cannot be read or stripped, CommonJS,
 * and JavaScript above 256 KB is left out; a thread reads it itself, and says what is wrong with it.
 */
export async function readThreadSources(files: readonly string[]): Promise<ThreadSources> {
  const sources = new Map<string, string>();
  const seen = new Set<string>();
  const waiting = [THREAD_FILE, ...files];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    try {
      // A thread knows a module by the URL of the file that a link leads to.
      const path = await realpath(file);
      const bytes = await readFile(path);
      const isTypeScript = path.endsWith('.ts');
      if (!isTypeScript && bytes.length > JAVASCRIPT_BYTES_MAX) continue;
      const text = bytes.toString('utf8');
      const source = isTypeScript ? stripTypeScriptTypes(text) : text;
      if (!path.endsWith('.mjs') && !isEsModule(source)) continue;
      sources.set(pathToFileURL(path).href, source);
      for (const [, name = ''] of source.matchAll(RELATIVE_IMPORT))
        waiting.push(resolve(dirname(path), name));
    } catch {
      continue;
    }
  }
  return sources;
}

/** What does not compile as CommonJS but imports or exports; the same is decided by Node where no package.json says. */
function isEsModule(source: string): boolean {
  if (!MODULE_SYNTAX.test(source)) return false;
  try {
    compileFunction(source, COMMONJS_PARAMETERS);
    return false;
  } catch {
    return true;
  }
}
