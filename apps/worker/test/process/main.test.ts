import type {} from '../../../../test/global-setup.ts';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { openTestDatabase } from '@nightshift/db/testing';
import { expect, inject, test } from 'vitest';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

test('a database or a queue that cannot be used ends a worker in the sentence of the migrate step', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  const wrong = Object.assign(new URL(database.url), { password: 'hidden' }).href;
  const start = (env: Record<string, string>): { status: number | null; shown: string } => {
    const common = { PATH: process.env.PATH, ANTHROPIC_API_KEY: 'test-key', DATA_DIR: tmpdir() };
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN], {
      encoding: 'utf8',
      env: { ...common, ...env },
    });
    return { status, shown: stdout + stderr };
  };
  const refusal = (sentence: RegExp): unknown => ({
    status: 1,
    shown: expect.stringMatching(new RegExp(`^[^\\n]*${sentence.source}[^\\n]*\\n$`)) as unknown,
  });
  try {
    expect(start({ DATABASE_URL: wrong })).toEqual(refusal(/Correct the user or the password/));
    const bad = start({ DATABASE_URL: database.url, QUEUE_URL: 'loft://:hidden@pigeon' });
    expect(bad).toEqual(refusal(/QUEUE_URL is not usable/));
    await database.pool.query('delete from kysely_migration');
    expect(start({ DATABASE_URL: database.url })).toEqual(refusal(/node scripts\/migrate\.ts/));
  } finally {
    await database.close();
  }
}, 60_000);
