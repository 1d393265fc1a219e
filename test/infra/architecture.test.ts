import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { read, root } from './repository.ts';

const architecture = read('docs/ARCHITECTURE.md');

function sectionOf(heading: string): string {
  return architecture.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
}

test('every signal is listed among the wake-ups, and no other', () => {
  const rung = globSync('{apps/{api/src/routes,worker/src/flows},libs/intake/src}/**/*.ts', {
    cwd: root,
  }).flatMap((path) => [...read(path).matchAll(/\{ kind: '(\w+)', id\b/g)].map(([, kind]) => kind));
  const rows = [...sectionOf('Who wakes whom').matchAll(/^\| [^|]+ \| `(\w+)` \| [^|]+ \|$/gm)];
  expect(rung).toContain('webhook');
  expect(new Set(rows.map(([, kind]) => kind))).toEqual(new Set(rung));
});

test('transactions outside of flows and routes are listed', () => {
  const elsewhere = globSync('apps/*/src/**/*.ts', {
    cwd: root,
    exclude: (path) => /\/(flows|flow-parts|routes)$/.test(path),
  }).filter((path) => read(path).includes('inTransaction('));
  const named = [...sectionOf('Where transactions open').matchAll(/`(apps\/[\w/.-]+\.ts)`/g)];
  expect(named.map(([, path]) => path).toSorted()).toEqual(elsewhere.toSorted());
});

test('locks take a transaction, and so do commits except the listed ones', () => {
  const takesConnection = /^export (?:async )?function (\w+)\(\s*\w+: Database\b/gm;
  const outside = globSync('libs/db/src/{locks,commits}/**/*.ts', { cwd: root }).flatMap((path) =>
    [...read(path).matchAll(takesConnection)].map(([, name]) => name),
  );
  const [, named = ''] = /take the connection: (.+?)\./s.exec(sectionOf('The house')) ?? [];
  expect([...named.matchAll(/`(\w+)`/g)].map(([, name]) => name).toSorted()).toEqual(outside.toSorted());
});
