import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sendJson } from '../../../libs/client/test/server.ts';
import { serveCommand } from './command.ts';

const FILE = join(import.meta.dirname, '../package.json');
/** Clears a screen, in two ways, and turns the direction of writing. */
const HOSTILE = '\u001B[2J\u009B2J\u202E';

test.each<[string, readonly string[], unknown]>([
  [
    'samples of errors',
    ['errors', 'job-1', '--samples'],
    {
      runs: 1,
      groups_total: 1,
      groups: [
        {
          error_group: 'g',
          stop_reason: 'error',
          runs: 1,
          samples: [{ run_id: 'run-1', custom_id: HOSTILE, message: HOSTILE }],
        },
      ],
    },
  ],
  [
    'parts that an import leaves out',
    ['agents', 'import', FILE],
    { agent_ids: ['agent-1'], left_out: [{ path: HOSTILE, reason: HOSTILE }], left_out_total: 1 },
  ],
  [
    'the reply of a tool',
    ['tools', 'run', 'agent-1', 'look'],
    { status: 'success', func_return: HOSTILE, stdout: [HOSTILE], stderr: [HOSTILE], duration_ms: 1 },
  ],
])('%s cannot rule the terminal', async (_, args, answer) => {
  const { run } = await serveCommand(({ url }, response) =>
    sendJson(response, url.searchParams.has('retry_of') ? [] : answer),
  );
  const { stdout, stderr } = await run(...args);
  expect(stdout + stderr).toContain('\uFFFD[2J');
  expect(stdout + stderr).not.toMatch(/[\u001B\u009B\u202E]/);
});

test('a refusal of the API cannot rule the terminal', async () => {
  const { run } = await serveCommand((_, response) =>
    sendJson(response, { code: 'not_found', detail: `There is no ${HOSTILE}.` }, 404),
  );
  const { exitCode, stderr } = await run('show', 'job-1');
  expect([exitCode, stderr]).toEqual([2, 'There is no \uFFFD[2J\uFFFD2J\uFFFD.\n']);
});
