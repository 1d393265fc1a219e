import type {} from '../../test/global-setup.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('the API ends with a bench that is killed', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bench-status-'));
  const database = await openTestDatabase(inject('postgresUrl'));
  const setup = { databaseUrl: database.url, queueUrl: 'none', dataDir: dir };
  const status = new URL('../scenarios/status.ts', import.meta.url).href;
  const code = `import { startApi } from ${JSON.stringify(status)};
    const { pid } = await startApi(${JSON.stringify(setup)});
    process.send(pid);`;
  const bench = spawn(process.execPath, ['-e', code], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  let api = 0;
  try {
    const [said] = (await Promise.race([once(bench, 'message'), once(bench, 'exit')])) as [unknown];
    api = Number(said);
    expect(api).toBeGreaterThan(1);
    bench.kill('SIGKILL');
    await expect.poll(() => isAlive(api)).toBe(false);
  } finally {
    bench.kill('SIGKILL');
    if (api > 1 && isAlive(api)) process.kill(api, 'SIGKILL');
    await database.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
