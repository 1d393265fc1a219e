import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { copiesOf, environmentOf, isIgnored, lastOf, parseDockerfile, type Stage } from './dockerfile.ts';
import { API_NODE_ARGUMENTS, WORKER_NODE_ARGUMENTS } from '../../scripts/stack/settings.ts';
import { read, readWorkspaces, root, variablesReadBy } from './repository.ts';

const dockerfiles = readdirSync(join(root, 'infra/docker')).filter((name) => name.endsWith('.Dockerfile'));
const dockerignore = read('.dockerignore');
const workspaces = readWorkspaces();

interface Image {
  readonly file: string;
  readonly app: string;
  readonly stages: readonly Stage[];
  readonly final: Stage;
  /** Paths of the repository in the final stage. */
  readonly copied: readonly string[];
}

const images = dockerfiles.map((name): Image => {
  const file = `infra/docker/${name}`;
  const stages = parseDockerfile(read(file));
  const final = stages.at(-1)!;
  const copied = copiesOf(final).flatMap(({ from, sources }) => (from === null ? sources : []));
  return { file, app: name.replace('.Dockerfile', ''), stages, final, copied };
});

test('there is an image for every process of the service', () => {
  expect(images.map(({ app }) => app).sort()).toEqual(['api', 'simulator', 'worker']);
});

test.each([
  ['worker', WORKER_NODE_ARGUMENTS],
  ['api', API_NODE_ARGUMENTS],
])('a process has the same flags wherever it starts: %s', (name, flags) => {
  const image = images.find(({ app }) => app === name)!;
  const command = ['node', ...flags, `apps/${name}/src/main.ts`];
  expect(JSON.parse(lastOf(image.final, 'CMD')!.rest)).toEqual(command);
  expect(read('docs/OPERATING.md').replace(/\\\n\s+/g, '')).toContain(command.join(' '));
});

describe.each(images)('$file', ({ file, app, stages, final, copied }) => {
  const { needs } = workspaces.get(`@nightshift/${app}`)!;
  const wanted = [`apps/${app}`, ...needs].sort();

  test('is built on the Node that the repository runs on, named by minor version and distribution', () => {
    const version = /NODE_VERSION = '(\d+\.\d+)\./.exec(read('scripts/bootstrap.mjs'))?.[1];
    expect(version).toBeDefined();
    const aliases = new Set(stages.map(({ alias }) => alias));
    for (const { image } of stages) {
      if (aliases.has(image)) continue;
      expect(image).toBe(`node:${version}-bookworm-slim`);
    }
  });

  test('copies only existing paths that reach the builder', () => {
    for (const stage of stages) {
      for (const { from, sources } of copiesOf(stage)) {
        if (from !== null) {
          expect(stages.map(({ alias }) => alias)).toContain(from);
          continue;
        }
        for (const source of sources) {
          expect({ source, exists: existsSync(join(root, source)) }).toEqual({ source, exists: true });
          expect({ source, ignored: isIgnored(source, dockerignore) }).toEqual({ source, ignored: false });
        }
      }
    }
  });

  test('installs from the manifests of exactly the app and its packages', () => {
    const dependencies = stages.find(({ alias }) => alias === 'dependencies')!;
    const sources = copiesOf(dependencies).flatMap((copy) => copy.sources);
    expect(sources.slice(0, 2)).toEqual(['package.json', 'package-lock.json']);
    expect(sources.slice(2).sort()).toEqual(wanted.map((folder) => `${folder}/package.json`));
    const install = dependencies.instructions.filter(({ name }) => name === 'RUN').map(({ rest }) => rest);
    expect(install).toEqual([expect.stringMatching(/^npm ci --omit=dev .*--ignore-scripts/)]);
    expect(install[0]).toContain(`--workspace @nightshift/${app}`);
  });

  test('holds the sources of the app and of its packages, each in its place', () => {
    const folders = copied.filter((source) => /^(apps|libs)\//.test(source));
    expect(folders.sort()).toEqual(wanted.map((folder) => `${folder}/src`));
    for (const { from, sources, target } of copiesOf(final)) {
      if (from !== null) continue;
      for (const source of sources) expect([source, `${dirname(source)}/`]).toContain(target);
    }
  });

  test('has every file that its sources import', () => {
    const outside = filesOf(copied).flatMap((path) =>
      relativeImportsOf(path).filter(
        (target) => !copied.some((source) => target === source || target.startsWith(`${source}/`)),
      ),
    );
    expect(outside).toEqual([]);
  });

  test('starts the app itself, so that signals reach it', () => {
    const [program, ...rest] = JSON.parse(lastOf(final, 'CMD')!.rest) as string[];
    const isFlag = (argument: string): boolean => argument.startsWith('--');
    expect([program, ...rest.filter((argument) => !isFlag(argument))]).toEqual([
      'node',
      `apps/${app}/src/main.ts`,
    ]);
    expect(lastOf(final, 'ENTRYPOINT')).toBeUndefined();
    expect(lastOf(final, 'STOPSIGNAL')?.rest).toBe('SIGTERM');
  });

  test('runs as an unprivileged user after its last step as root', () => {
    expect(lastOf(final, 'USER')?.rest).toBe('node');
    const names = final.instructions.map(({ name }) => name);
    expect(names.slice(names.indexOf('USER'))).not.toContain('RUN');
    expect(names.slice(names.indexOf('USER'))).not.toContain('COPY');
  });

  test('sets only variables that the app knows', () => {
    const known = variablesReadBy(`apps/${app}/src/config.ts`);
    const unknown = Object.keys(environmentOf(final)).filter(
      (name) => name !== 'NODE_ENV' && !known.has(name),
    );
    expect(unknown).toEqual([]);
  });

  test('has no secret in any layer', () => {
    const lines = read(file).split('\n');
    const set = lines.filter((line) => /^\s*(ENV|ARG|[A-Z_]+=)/.test(line));
    expect(set.filter((line) => /KEY|TOKEN|SECRET|PASSWORD|_URL/.test(line))).toEqual([]);
    expect(lines.filter((line) => /^(COPY|ADD)\b.*(\s\.\s|\.env|\.npmrc)/.test(line))).toEqual([]);
  });

  test("passes a builder's checks", (context) => {
    if (!engineAnswers()) context.skip('no Docker engine answers here');
    const { status, stdout, stderr } = spawnSync('docker', ['build', '--check', '-f', file, '.'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect({ status, said: stdout + stderr }).toMatchObject({ status: 0 });
  });
});

test('the migrate image holds the migrate step', () => {
  expect(images.find(({ app }) => app === 'api')!.copied).toContain('scripts/migrate.ts');
});

test.each([
  '.env',
  '.data/api-key',
  'apps/api/.env',
  'apps/api/node_modules/x',
  '.git/config',
  'samples/NOTICE',
])('%s never reaches the builder', (path) => {
  expect(isIgnored(path, dockerignore)).toBe(true);
});

describe('the Dockerfile parser refuses', () => {
  test.each([
    ['an unknown instruction', 'FROM a:1\nCOPPY a b'],
    ['lower case', 'FROM a:1\nrun true'],
    ['an instruction before FROM', 'RUN true\nFROM a:1'],
    ['no FROM', '# nothing'],
    ['a line that continues into nothing', 'FROM a:1\nRUN true \\'],
    ['a gap in an instruction', 'FROM a:1\nRUN true \\\n\n  && false'],
    ['an instruction without arguments', 'FROM a:1\nUSER'],
  ])('%s', (_, text) => {
    expect(() => parseDockerfile(text)).toThrow();
  });
});

/** Returns every source file in these paths. */
function filesOf(paths: readonly string[]): readonly string[] {
  return paths.flatMap((path) =>
    statSync(join(root, path)).isDirectory()
      ? globSync(`${path}/**/*.ts`, { cwd: root }).filter((file) => !file.endsWith('.d.ts'))
      : [path],
  );
}

/** Returns the repository files that a source names relatively: imports, and entries of threads and child processes. */
function relativeImportsOf(path: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8');
  const named = [
    ...text.matchAll(/^(?:import|export)\b(?! type\b)[^;]*?from '(\.[^']+)'/gm),
    ...text.matchAll(/\bimport\('(\.[^']+)'\)/g),
    ...text.matchAll(/new URL\('(\.[^']+)', import\.meta\.url\)/g),
  ];
  return named.map(([, target = '']) => relative(root, join(root, dirname(path), target)));
}

function engineAnswers(): boolean {
  const { status } = spawnSync('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 10_000 });
  return status === 0;
}
