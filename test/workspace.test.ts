import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { ESLint } from 'eslint';
import tseslint from 'typescript-eslint';
import { beforeAll, describe, expect, test } from 'vitest';
import { FOREIGN_NAMES } from '../apps/api/src/config.ts';
import { FIRST } from './sequencer.ts';

const root = dirname(import.meta.dirname);
const bin = (name: string): string => join(root, 'node_modules/.bin', name);

interface Manifest {
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
  /** A project's nx settings besides its dependencies. */
  readonly nx?: { readonly implicitDependencies?: readonly string[] };
}

const projects = ['apps', 'libs'].flatMap((group) =>
  readdirSync(join(root, group))
    .map((name) => `${group}/${name}`)
    .filter((project) => existsSync(join(root, project, 'package.json'))),
);

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest;
}

describe('packages', () => {
  test('tsc is TypeScript 7', () => {
    expect(execFileSync(bin('tsc'), ['-v'], { encoding: 'utf8' })).toMatch(/^Version 7\./);
  });

  test.each(['.', ...projects])('%s pins exact versions', (folder) => {
    const { dependencies, devDependencies, optionalDependencies } = readManifest(folder);
    const loose = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }).filter(
      ([, version]) => !/^(npm:(@[\w-]+\/)?[\w-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
    );
    expect(loose).toEqual([]);
  });

  test.each(projects)('%s depends only on its imports', (folder) => {
    const { dependencies = {}, devDependencies = {} } = readManifest(folder);
    const unused = (names: Record<string, string>, below: string): string[] => {
      const text = [...filesBelow(join(root, folder, below))]
        .map((file) => readFileSync(join(root, file), 'utf8'))
        .join('\n');
      return Object.keys(names).filter((name) => !new RegExp(`(?:from |import\\()'${name}['/]`).test(text));
    };
    expect({ src: unused(dependencies, 'src'), test: unused(devDependencies, 'test') }).toEqual({
      src: [],
      test: [],
    });
  });

  test('the lockfile matches these manifests, so that `npm ci` accepts it', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, Manifest>;
    };
    const wanted = ({ dependencies, devDependencies, optionalDependencies }: Manifest): Manifest => ({
      dependencies: dependencies ?? {},
      devDependencies: devDependencies ?? {},
      optionalDependencies: optionalDependencies ?? {},
    });
    for (const folder of ['', ...projects])
      expect({ folder, ...wanted(lock.packages[folder] ?? {}) }).toEqual({
        folder,
        ...wanted(readManifest(folder)),
      });
  });
});

describe('nx checks a project again when an imported file changes', () => {
  const { namedInputs } = JSON.parse(readFileSync(join(root, 'nx.json'), 'utf8')) as {
    namedInputs: { sources: readonly string[] };
  };
  const projectOf = (file: string): string | undefined =>
    projects.find((project) => file.startsWith(`${project}/`));

  /** Returns the projects whose files are inputs of `project` (`^sources`): all its dependencies. */
  function dependencies(project: string): string[] {
    const { dependencies: named, devDependencies, nx } = readManifest(project);
    const names = [...Object.keys({ ...named, ...devDependencies }), ...(nx?.implicitDependencies ?? [])];
    const direct = projects.filter((each) => names.includes(each.replace(/^\w+/, '@nightshift')));
    return [...direct, ...direct.flatMap(dependencies)];
  }

  /** Returns the files that `file` imports by a relative path. */
  function importsOf(file: string): string[] {
    const code = readFileSync(join(root, file), 'utf8');
    return [...code.matchAll(/\b(?:from|import)[ (]'([.][^']+)'/g)].map(([, path = '']) =>
      join(dirname(file), path),
    );
  }

  test.each(projects)('%s', (project) => {
    const known = new Set([project, ...dependencies(project)]);
    const missed: string[] = [];
    const look = (file: string): void => {
      for (const target of importsOf(file)) {
        const owner = projectOf(target);
        if (owner !== undefined && known.has(owner)) continue;
        if (owner === undefined && namedInputs.sources.includes(`{workspaceRoot}/${target}`)) look(target);
        else missed.push(`${file} imports ${target}`);
      }
    };
    [...filesBelow(join(root, project))].filter((file) => file.endsWith('.ts')).forEach(look);
    expect(missed).toEqual([]);
  });
});

describe('sources', () => {
  const generated = /^(samples|docs\/reference|libs\/client\/src\/generated)\//;
  const sources = [...filesBelow(root)].filter((file) => !generated.test(file));

  test('sources have no postponed tasks', () => {
    const later = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'HA' + 'CK'].join('|')})\\b`);
    expect(sources.filter((file) => later.test(readFileSync(join(root, file), 'utf8')))).toEqual([]);
  });

  test('every variable that the API ignores is read by a test', () => {
    const code = sources
      .filter((file) => /\.(ts|mjs)$/.test(file))
      .map((file) => readFileSync(join(root, file), 'utf8'))
      .join('\n');
    // The command reads its variables by `given`.
    const read = new Set(
      [...code.matchAll(/(?:process\.env(?:\.|\[')|\bgiven\(')(\w+)/g)].map(([, name]) => name),
    );
    expect([...FOREIGN_NAMES].filter((name) => !read.has(name))).toEqual([]);
  });

  test('the tests to run first exist', () => {
    expect(FIRST.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  test('a library has a single entry and no folder of mixed helpers', () => {
    const odd = /\/src\/.*\b(utils?|helpers?|managers?|common|misc)(\/|\.ts$)/;
    expect(sources.filter((file) => odd.test(file))).toEqual([]);
  });
});

describe('lint refuses', () => {
  const eslint = new ESLint({ cwd: root });
  /** Skips loading types, which take most of the time and which most rules do not need. */
  const untyped = new ESLint({ cwd: root, overrideConfig: tseslint.configs.disableTypeChecked });

  /** Lints `code` as the content of an existing `file`. Returns the rules that complain. */
  async function complaints(file: string, code: string, linter = untyped): Promise<string[]> {
    const [result] = await linter.lintText(code, { filePath: join(root, file) });
    return [...new Set(result!.messages.map(({ ruleId, message }) => ruleId ?? message))].sort();
  }

  test.each([
    ['a clock', 'export const now = Date.now();', 'no-restricted-properties'],
    ['a disguised clock', 'export const now = new Date();', 'no-restricted-syntax'],
    ['dice', 'export const n = Math.random();', 'no-restricted-properties'],
    ['a timer', 'export const later = setTimeout;', 'no-restricted-globals'],
    ['the process', 'export const pid = process.pid;', 'no-restricted-globals'],
    ['Node', "export { readFileSync } from 'node:fs';", 'no-restricted-imports'],
    ['a library that is not its own', "export { Redis } from 'ioredis';", 'no-restricted-imports'],
  ])('%s in the pure core', async (_, code, rule) => {
    expect(await complaints('libs/agent-core/src/index.ts', code)).toContain(rule);
  });

  test.each([
    ['the environment outside config.ts', 'export const home = process.env.HOME;', 'no-restricted-syntax'],
    ['an enum', 'export enum Colour { Red }', 'no-restricted-syntax'],
    ['a default export', 'export default 1;', 'no-restricted-syntax'],
    ['any', 'export const x = (y: any): unknown => y;', '@typescript-eslint/no-explicit-any'],
    ['an unawaited promise', 'void 0; Promise.resolve(1);', '@typescript-eslint/no-floating-promises'],
    ['output on the console', "console.log('hello');", 'no-console'],
    [
      'raw SQL',
      "import { sql } from 'kysely'; export const q = (s: string) => sql.raw(s);",
      'no-restricted-properties',
    ],
    [
      'a second connection inside a transaction',
      'export const f = (db: { transaction(): { execute(w: (trx: 1) => unknown): void } }) => db.transaction().execute((trx) => [trx, db]);',
      'no-restricted-syntax',
    ],
  ])('%s', async (_, code, rule) => {
    expect(await complaints('libs/db/src/index.ts', code, eslint)).toContain(rule);
  });

  const declared =
    'declare const db: object; declare const pool: object; declare const deps: { db: object };' +
    'declare function inTransaction<T>(on: object, work: (trx: object) => T): T;';

  test.each([
    ['apps/worker/src/flows/sweep/sweep.ts', 'inTransaction(db, (trx) => [trx, db])'],
    ['apps/worker/src/flows/sweep/sweep.ts', 'inTransaction(deps.db, (trx) => [trx, deps.db])'],
    ['apps/worker/src/flows/sweep/sweep.ts', 'inTransaction(db, () => inTransaction(db, (trx) => trx))'],
    ['apps/worker/src/flows/sweep/sweep.ts', 'inTransaction(db, (trx) => [trx, pool])'],
    ['apps/api/src/routes/routes.ts', 'inTransaction(deps.db, function (trx) { return [trx, deps.db]; })'],
    ['apps/worker/src/main.ts', 'inTransaction(db, (trx) => [trx, db])'],
    ['scripts/audit.ts', 'inTransaction(db, (trx) => [trx, db])'],
  ])('a second connection inside a transaction: in %s %s', async (file, code) => {
    expect(await complaints(file, `${declared} export const x = ${code};`)).toContain('no-restricted-syntax');
  });

  test('nothing beside a transaction', async () => {
    const code = 'inTransaction(deps.db, (trx) => trx); export const y = [db, pool];';
    expect(
      await complaints('apps/worker/src/flows/sweep/sweep.ts', `${declared} export const x = ${code}`),
    ).toEqual([]);
  });

  test.each(['apps/worker/src/flows/sweep/sweep.ts', 'apps/api/src/routes/routes.ts'])(
    'the network in %s',
    async (file) => {
      const code = (name: string): string => `export const x = ${name};`;
      expect(await complaints(file, code('fetch'))).toContain('no-restricted-globals');
      expect(await complaints(file, code('WebSocket'))).toContain('no-restricted-globals');
      expect(await complaints(file, code('globalThis.fetch'))).toContain('no-restricted-globals');
    },
  );
});

describe('the import order refuses', () => {
  interface Violation {
    readonly from: string;
    readonly rule: { readonly name: string };
  }

  /** Cruises a small tree of files with these imports. Returns the refusals. */
  function refused(files: Readonly<Record<string, readonly string[]>>): readonly Violation[] {
    const tree = mkdtempSync(join(tmpdir(), 'nightshift-imports-'));
    try {
      writeFileSync(join(tree, 'tsconfig.json'), '{}');
      for (const folder of ['apps', 'libs']) mkdirSync(join(tree, folder));
      for (const [file, imports] of Object.entries(files)) {
        mkdirSync(dirname(join(tree, file)), { recursive: true });
        writeFileSync(join(tree, file), imports.map((target) => `import '${target}';\n`).join(''));
      }
      const config = join(root, '.dependency-cruiser.cjs');
      const { stdout } = spawnSync(bin('depcruise'), ['--config', config, '-T', 'json', 'apps', 'libs'], {
        cwd: tree,
        encoding: 'utf8',
      });
      const { summary } = JSON.parse(stdout) as { summary: { violations: Violation[] } };
      return summary.violations.filter(({ rule }) => rule.name !== 'no orphans');
    } finally {
      rmSync(tree, { recursive: true, force: true });
    }
  }

  test('nothing in the allowed order', () => {
    expect(
      refused({
        'libs/agent-core/src/base/a.ts': [],
        'libs/agent-core/src/model/b.ts': ['../base/a.ts'],
        'libs/agent-core/src/machine/c.ts': ['../model/b.ts'],
        'libs/agent-core/src/decide/d.ts': ['../machine/c.ts'],
        'libs/agent-core/src/wire/e.ts': ['../model/b.ts'],
        'libs/agent-core/src/index.ts': ['./decide/d.ts', './wire/e.ts'],
        'apps/worker/src/flows/f.ts': [],
        'apps/worker/src/ticks/t.ts': ['../flows/f.ts'],
        'apps/worker/src/config.ts': [],
        'apps/worker/src/main.ts': ['./ticks/t.ts', './config.ts'],
        'apps/worker/test/f.test.ts': ['../src/flows/f.ts', '../../api/src/routes/r.ts'],
        'apps/api/src/routes/r.ts': [],
      }),
    ).toEqual([]);
  });

  const disorders: readonly (readonly [what: string, from: string, to: string, target?: string])[] = [
    [
      'base that knows the model',
      'libs/agent-core/src/base/a.ts',
      '../model/b.ts',
      'libs/agent-core/src/model/b.ts',
    ],
    [
      'wire that decides',
      'libs/agent-core/src/wire/a.ts',
      '../decide/b.ts',
      'libs/agent-core/src/decide/b.ts',
    ],
    [
      'memory that knows tools',
      'libs/agent-core/src/memory/a.ts',
      '../tools/b.ts',
      'libs/agent-core/src/tools/b.ts',
    ],
    ['a core with I/O', 'libs/agent-core/src/base/file.ts', 'node:fs'],
    [
      'a flow that knows its queue',
      'apps/worker/src/flows/a.ts',
      '../queues/b.ts',
      'apps/worker/src/queues/b.ts',
    ],
    [
      'a flow that imports the helper of another flow',
      'apps/worker/src/flows/one/a.ts',
      '../two/b.ts',
      'apps/worker/src/flows/two/b.ts',
    ],
    [
      'a part of flows that knows a flow',
      'apps/worker/src/flow-parts/a.ts',
      '../flows/two/c.ts',
      'apps/worker/src/flows/two/c.ts',
    ],
    ['a flow that opens sockets', 'apps/worker/src/flows/socket.ts', 'node:net'],
    ['a route that knows its server', 'apps/api/src/routes/a.ts', '../server.ts', 'apps/api/src/server.ts'],
    ['configuration beyond main', 'apps/api/src/server.ts', './config.ts', 'apps/api/src/config.ts'],
    ['an app in an app', 'apps/api/src/a.ts', '../../worker/src/b.ts', 'apps/worker/src/b.ts'],
    ['a library that knows an app', 'libs/queue/src/a.ts', '../../../apps/api/src/b.ts', 'apps/api/src/b.ts'],
    ['a cycle', 'libs/queue/src/cycle.ts', './cycle.ts'],
    ['a test in production code', 'libs/db/src/a.ts', '../test/b.ts', 'libs/db/test/b.ts'],
    ['a proof in production code', 'libs/db/src/c.ts', '../../../proof/b.ts', 'proof/b.ts'],
  ];

  /** All in one tree: each has its own importing file. */
  let found: readonly Violation[];
  beforeAll(() => {
    const files = disorders.flatMap(([, from, to, target]) => [
      ...(target === undefined ? [] : [[target, []] as const]),
      [from, [to]] as const,
    ]);
    found = refused(Object.fromEntries(files));
  });

  test.each(disorders)('%s', (_, from) => {
    expect(found.filter((violation) => violation.from === from)).not.toEqual([]);
  });
});

function* filesBelow(directory: string): Generator<string> {
  const closed = new Set(['node_modules', 'dist', 'coverage']);
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (closed.has(entry.name) || (entry.name.startsWith('.') && entry.name !== '.ci')) continue;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (/\.(ts|tsx|mjs|cjs|md|ya?ml|css|sh)$/.test(entry.name) || entry.name === 'run')
      yield relative(root, path);
  }
}
