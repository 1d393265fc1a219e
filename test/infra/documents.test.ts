import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CONFLICT_POLICIES, CONFLICT_POLICY_DEFAULT } from '../../libs/agent-core/src/index.ts';
import { bannedWords } from '../../scripts/lint/plain-words.ts';
import { readPrograms } from '../../scripts/docs/configuration-page.ts';
import { read, root, variablesReadBy } from './repository.ts';

const documents = [
  'README.md',
  ...globSync('docs/*.md', { cwd: root }).sort(),
  'proof/README.md',
  'samples/README.md',
  'apps/simulator/README.md',
  ...globSync('docs/adr/*.md', { cwd: root }).sort(),
];
const sources = globSync('{apps,libs,scripts}/**/*.{ts,mjs}', {
  cwd: root,
  exclude: (name) => name.includes('node_modules'),
});
/** Every word of the sources. */
const words = new Set(
  sources.flatMap((path) => readFileSync(join(root, path), 'utf8').match(/[\w$]+/g) ?? []),
);
const variables = new Set([
  ...globSync(['apps/*/src/config.ts', 'scripts/*.ts', 'scripts/stack/*.ts', 'test/*.ts'], {
    cwd: root,
  }).flatMap((path) => [...variablesReadBy(path)]),
  // Variables of the file, not of a program: see docker-compose.yml.
  ...[...read('docker-compose.yml').matchAll(/\$\{?([A-Z][A-Z0-9_]+)/g)].map(([, name]) => name),
]);

/** Names defined by others: PostgreSQL's programs and settings, the provider's answers, and Letta's own names. */
const WORDS_OF_OTHERS: ReadonlySet<string> = new Set([
  'pg_dump',
  'pg_restore',
  'pg_basebackup',
  'archive_command',
  'max_wal_size',
  'ignore_startup_parameters',
  'has_more',
  'approval_request_message',
  'approval_response_message',
  'has_feedback',
  'trace_ids',
]);

/** Splits a document into its prose and its fenced blocks. */
function split(text: string): { readonly prose: string; readonly blocks: readonly string[] } {
  const blocks = [...text.matchAll(/^```.*\n([\s\S]*?)^```$/gm)].map(([, body = '']) => body);
  return { prose: text.replaceAll(/^```.*\n[\s\S]*?^```$/gm, ''), blocks };
}

function codeSpansOf(prose: string): readonly string[] {
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
}

/** Returns the anchors of the headings. */
function anchorsOf(text: string): readonly string[] {
  return [...split(text).prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

describe.each(documents)('%s', (document) => {
  const { prose, blocks } = split(read(document));

  test('every link has a target', () => {
    const dead = [...prose.matchAll(/\]\(([^)]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^https?:/.test(target))
      .filter((target) => {
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? document : join(dirname(document), path);
        if (!existsSync(join(root, file))) return true;
        return anchor !== undefined && !anchorsOf(read(file)).includes(anchor);
      });
    expect(dead).toEqual([]);
  });

  test('every named path exists', () => {
    const named = [...codeSpansOf(prose), ...blocks.flatMap((block) => block.split(/[\s'"]+/))].filter(
      (word) =>
        /^(apps|libs|scripts|infra|docs|samples|test|proof|bench)\/[\w./-]+$|^[\w.-]+\.(ya?ml|cjs|mjs)$/.test(
          word,
        ),
    );
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test('every named function, type and constant is in the sources', () => {
    const named = codeSpansOf(prose).filter((span) => /^_?[a-z]+[A-Z]\w*$|^[A-Z][a-z]+[A-Z]\w*$/.test(span));
    expect(named.filter((name) => !words.has(name))).toEqual([]);
  });

  test('every function named with a file is in that file', () => {
    const placed = [...prose.matchAll(/`([a-z]+[A-Z]\w*)`(?: in |,\s| \()`((?:apps|libs)\/[\w/.-]+\.ts)`/g)];
    const missing = placed.filter(
      ([, name = '', path = '']) => !new RegExp(`\\b(?:function\\*?|const) ${name}\\b`).test(read(path)),
    );
    expect(missing.map(([text]) => text)).toEqual([]);
  });

  test('every named table, column and snake_case word is in the sources', () => {
    const named = codeSpansOf(prose).filter((span) => /^[a-z]+(_[a-z0-9]+)+$/.test(span));
    // The names of most metrics are concatenated.
    const known = (name: string): boolean =>
      [name, name.replace(/^nightshift_/, '')].some((word) => words.has(word)) || WORDS_OF_OTHERS.has(name);
    expect(named.filter((name) => !known(name))).toEqual([]);
  });

  test('every named environment variable is read', () => {
    const named = [
      ...codeSpansOf(prose),
      ...blocks.flatMap((block) => block.match(/\b[A-Z]+_[A-Z_]+(?==)/g) ?? []),
    ]
      .map((span) => span.split('=')[0] ?? '')
      .filter((span) => /^[A-Z]+(_[A-Z]+)+$/.test(span) && !words.has(span));
    expect(named.filter((name) => !variables.has(name))).toEqual([]);
  });

  test('every named npm command exists', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...read(document).matchAll(/npm (?:run ([\w-]+)|(start|test)\b)/g)].map(
      ([, run, own]) => run ?? own!,
    );
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
});

test('no document hides its subject behind a pronoun', () => {
  const all = globSync('**/*.md', {
    cwd: root,
    exclude: (name) => /(^|\/)(node_modules|\.\w+)(\/|$)/.test(name),
  });
  expect(all).toContain('docs/reference/states.md');
  const found = all.flatMap((path) => bannedWords(read(path)).map((word) => `${path}: ${word}`));
  expect(found).toEqual([]);
});

test('the list of decisions is complete, with their titles', () => {
  const index = read('docs/adr/README.md');
  for (const path of documents.filter((name) => /adr\/\d{4}-/.test(name))) {
    const [, number, title] = /^# (\d{4})\. (.+)$/m.exec(read(path)) ?? [];
    expect(path).toContain(`adr/${number}-`);
    expect(index).toContain(`[${number}](${relative('docs/adr', path)}) | `);
    expect(title).toBeDefined();
  }
});

test('a decision states the present and names no predecessor', () => {
  const historical = documents.filter(
    (path) => path.startsWith('docs/adr/') && /\breplaces\b|\btakes the place of\b/i.test(read(path)),
  );
  expect(historical).toEqual([]);
});

test('every decision named in code has a page', () => {
  const pages = new Set(documents.map((path) => /adr\/(\d{4})-/.exec(path)?.[1]));
  const references = sources.flatMap((path) =>
    [...readFileSync(join(root, path), 'utf8').matchAll(/\bADR (\d{4})\b/g)].map(([, number]) => number),
  );
  expect(references.length).toBeGreaterThan(0);
  expect(references.filter((number) => !pages.has(number))).toEqual([]);
});

function fallbackOf(program: string, name: string): string | undefined {
  const { variables = [] } = readPrograms().find(({ title }) => title === program) ?? {};
  return variables.find((variable) => variable.name === name)?.fallback.replaceAll('`', '');
}

test('the documents have the real defaults', () => {
  const maxSteps = /MAX_STEPS_DEFAULT = (\d+)/.exec(read('libs/intake/src/request.ts'))![1];
  expect(read('README.md')).toContain(`\`max_steps\` (default ${maxSteps})`);
  expect(read('docs/batches.md')).toContain(`| \`${CONFLICT_POLICY_DEFAULT}\` (the default) |`);
  for (const policy of CONFLICT_POLICIES) expect(read('docs/batches.md')).toContain(`| \`${policy}\``);
  expect(read('docs/OPERATING.md')).toMatch(
    new RegExp(`\\| \`PORT\` .* \\| ${fallbackOf('API', 'PORT')} \\|`),
  );
});

test("the stated connections of a worker include the audit's", () => {
  const pool = Number(fallbackOf('Worker', 'DATABASE_POOL_MAX'));
  expect(read('docker-compose.yml')).toContain(`Each worker holds up to ${pool + 1} connections`);
  expect(read('docs/OPERATING.md')).toContain(`${pool + 1} for each worker`);
});
