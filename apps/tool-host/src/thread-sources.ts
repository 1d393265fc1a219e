import { readFile, realpath } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compileFunction } from 'node:vm';

/** ES modules by URL; TypeScript without its types, JavaScript only up to a size. */
export type ThreadSources = ReadonlyMap<string, string>;

const THREAD_FILE = fileURLToPath(new URL('./thread.ts', import.meta.url));
const RELATIVE_IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+\.(?:ts|m?js))['"]/g;
const MODULE_SYNTAX = /\b(?:export|import)\b/;
/** Maximum JavaScript size: each thread holds all sources for its lifetime in its tools' memory. */
const JAVASCRIPT_BYTES_MAX = 256 * 1024;
/** Parameters of Node's wrapper around a CommonJS module. */
const COMMONJS_PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];

/**
 * Reads the threads' own code, these files and their relative imports, without types. Never rejects.
 * So threads that start later have the same modules. A thread that strips types itself loads a compiler, which takes ten
 * megabytes and doubles its start time. Unreadable files, CommonJS and JavaScript above 256 KB are left out; a thread reads
 * them itself and reports faults.
 */
export async function readThreadSources(files: readonly string[]): Promise<ThreadSources> {
  const sources = new Map<string, string>();
  const seen = new Set<string>();
  const waiting = [THREAD_FILE, ...files];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    try {
      // A thread knows a linked module by the URL of the link's target.
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

/** Whether a source fails as CommonJS but imports or exports. Node decides the same way without a package.json. */
function isEsModule(source: string): boolean {
  if (!MODULE_SYNTAX.test(source)) return false;
  try {
    compileFunction(source, COMMONJS_PARAMETERS);
    return false;
  } catch {
    return true;
  }
}
