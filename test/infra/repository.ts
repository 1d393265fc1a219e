import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The repository's folder. */
export const root = dirname(dirname(import.meta.dirname));

/** Reads a file of the repository. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** A package of the repository: its folder, and the folders of all repository packages that it needs to run. */
export interface Workspace {
  readonly name: string;
  readonly folder: string;
  /** Direct and indirect dependencies, without itself. */
  readonly needs: ReadonlySet<string>;
}

/** Reads the packages below apps/ and libs/, by name. */
export function readWorkspaces(): ReadonlyMap<string, Workspace> {
  const found = new Map<string, { readonly folder: string; readonly dependencies: readonly string[] }>();
  for (const group of ['apps', 'libs']) {
    for (const name of readdirSync(join(root, group))) {
      const folder = `${group}/${name}`;
      if (!existsSync(join(root, folder, 'package.json'))) continue;
      const manifest = JSON.parse(read(`${folder}/package.json`)) as {
        readonly name: string;
        readonly dependencies?: Readonly<Record<string, string>>;
      };
      found.set(manifest.name, { folder, dependencies: Object.keys(manifest.dependencies ?? {}) });
    }
  }
  const needsOf = (name: string, seen = new Set<string>()): ReadonlySet<string> => {
    for (const dependency of found.get(name)?.dependencies ?? []) {
      const workspace = found.get(dependency);
      if (workspace === undefined || seen.has(workspace.folder)) continue;
      seen.add(workspace.folder);
      needsOf(dependency, seen);
    }
    return seen;
  };
  return new Map(
    [...found].map(([name, { folder }]) => [name, { name, folder, needs: needsOf(name) }] as const),
  );
}

/** Returns the environment variables that a source file reads: keys of its schema, and `process.env.NAME`. */
export function variablesReadBy(path: string): ReadonlySet<string> {
  const text = read(path);
  const keys = [...text.matchAll(/^\s+([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*): /gm)];
  const direct = [...text.matchAll(/(?:process\.env(?:\.|\[')|\bgiven\(')([A-Z][A-Z0-9_]*)/g)];
  return new Set([...keys, ...direct].flatMap(([, name]) => (name === undefined ? [] : [name])));
}
