import { readdir } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';
import {
  TOOL_NAME_PATTERN,
  type ToolCatalog,
  type ToolManifest,
  type ToolModuleProblem,
} from './contract.ts';
import type { HostSettings } from './protocol.ts';
import type { Threads } from './threads.ts';
import { describeCrash } from './verdict.ts';

const EXTENSIONS: ReadonlySet<string> = new Set(['.ts', '.js', '.mjs']);

interface Candidate {
  readonly name: string;
  readonly file: string;
}

/** Files that may hold tools, one per name, and rejected files with reasons. */
export interface Candidates {
  readonly modules: readonly Candidate[];
  readonly problems: readonly ToolModuleProblem[];
}

/**
 * Lists candidate modules. Of two modules with the same name the first counts: folders in the given order, files in
 * alphabetical order. Never rejects.
 */
export async function findCandidates(dirs: readonly string[]): Promise<Candidates> {
  const problems: ToolModuleProblem[] = [];
  const candidates = new Map<string, Candidate>();
  for (const dir of dirs) {
    const folder = resolve(dir);
    for (const file of await listModules(folder, problems)) {
      const name = file.slice(0, -extname(file).length);
      const path = join(folder, file);
      const taken = candidates.get(name);
      if (!TOOL_NAME_PATTERN.test(name)) {
        problems.push({
          file: path,
          reason: `'${name}' is not a tool name: use 1 to 64 of a-z, A-Z, 0-9, _ and - (a leading _ hides a file)`,
        });
      } else if (taken !== undefined) {
        problems.push({
          file: path,
          reason: `a tool named '${name}' is already defined by ${taken.file}; rename one`,
        });
      } else {
        candidates.set(name, { name, file: path });
      }
    }
  }
  return { modules: [...candidates.values()], problems };
}

/**
 * Inspects each module in a thread. An unusable module is listed with its reason and affects no other, even if its import
 * hangs or ends the thread. Never rejects.
 */
export async function readCatalog(
  candidates: Candidates,
  threads: Threads,
  settings: HostSettings,
): Promise<ToolCatalog> {
  const problems = [...candidates.problems];
  const tools: ToolManifest[] = [];
  const waiting = candidates.modules.values();
  // At most one inspection per thread: the import timeout must not run while a module waits for a thread.
  const inspectors = Array.from({ length: settings.threads }, async () => {
    for (const candidate of waiting) {
      const found = await inspectCandidate(candidate, threads, settings);
      if ('reason' in found) problems.push(found);
      else tools.push(found);
    }
  });
  await Promise.all(inspectors);
  tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  problems.sort((a, b) => (a.file < b.file ? -1 : 1));
  return { tools, problems };
}

async function listModules(folder: string, problems: ToolModuleProblem[]): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .filter((entry) => (entry.isFile() || entry.isSymbolicLink()) && isModuleName(entry.name))
      .map((entry) => entry.name)
      .sort();
  } catch (error) {
    problems.push({ file: folder, reason: `the tools folder cannot be read: ${(error as Error).message}` });
    return [];
  }
}

function isModuleName(name: string): boolean {
  return !/^[_.]/.test(name) && !name.endsWith('.d.ts') && EXTENSIONS.has(extname(name));
}

async function inspectCandidate(
  candidate: Candidate,
  threads: Threads,
  settings: HostSettings,
): Promise<ToolManifest | ToolModuleProblem> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), settings.load_timeout_ms);
  try {
    const inspection = await threads.inspect(candidate.file, deadline.signal);
    if (!inspection.usable) return { file: candidate.file, reason: inspection.reason };
    const { usable: _, ...described } = inspection;
    return { name: candidate.name, ...described, file: candidate.file };
  } catch (error) {
    const reason = deadline.signal.aborted
      ? `importing it took longer than ${settings.load_timeout_ms} ms; keep slow work out of the module's top level`
      : `importing it ended its thread (${describeCrash(error, settings)}); keep work out of the module's top level`;
    return { file: candidate.file, reason };
  } finally {
    clearTimeout(timer);
  }
}
