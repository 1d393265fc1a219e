import type {} from '../global-setup.ts';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createNightshift, type Nightshift } from '../../libs/client/src/index.ts';
import { openStackHouse, type StackHouse } from './house.ts';

/** Answers `/now/…` at once, and keeps all others waiting. */
const held: ServerResponse[] = [];
const server = createServer((request, response) => {
  if (request.url?.startsWith('/now/') === true) response.end(`now ${request.url}`);
  else held.push(response);
});

let house: StackHouse;
let client: Nightshift;
let agent_id: string;
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  house = await openStackHouse({
    simulatorLatency: 'fixed:0',
    workers: 1,
    workerEnv: { TOOLS_ALLOW_PRIVATE: '1' },
  });
  client = createNightshift({ url: house.stack.apiUrl, apiKey: house.stack.apiKey, retriesMax: 0 });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const name of ['now', 'later'])
    await client.tools.create({
      source_type: 'http',
      json_schema: {
        name,
        parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
      },
      http: { method: 'POST', url: `${origin}/${name}/{{place}}` },
    });
  const tools = ['now', 'later', 'compare_versions'];
  agent_id = await house.createAgent('tries', tools);
});
afterAll(async () => {
  for (const response of held) response.end();
  server.close();
  await house.close();
});

const run = (tool: string, args: Record<string, unknown>) => client.agents.runTool(agent_id, tool, { args });

test('an HTTP tool and a module are tried by a worker, through the bell', async () => {
  expect(await run('now', { place: 'A/B' })).toMatchObject({
    status: 'success',
    func_return: 'now /now/A%2FB',
  });
  expect(await run('compare_versions', { versions: ['1.10.0', '1.9.0'] })).toMatchObject({
    status: 'success',
  });
});

test('a trial whose worker is killed is told as unknown, and no other worker repeats it', async () => {
  const answer = run('later', { place: 'x' }).catch((error: unknown) => error);
  await expect.poll(() => held.length, { interval: 20, timeout: 20_000 }).toBe(1);
  await house.stack.workers[0]?.kill();
  await house.stack.addWorker('worker-2');
  expect(await run('now', { place: 'y' })).toMatchObject({ status: 'success' });
  await house.stack.pool.query(
    `update tool_trial set replies_until = app_now() - interval '1 second' where state = 'running'`,
  );
  expect(await answer).toMatchObject({ status: 504, code: 'outcome_unknown' });
  expect(held).toHaveLength(1);
});
