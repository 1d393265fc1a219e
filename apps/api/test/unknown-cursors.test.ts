import { messageUuid, stepUuid, toWireId } from '@nightshift/agent-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
/** Ids of a second agent and batch, which lists of the first do not contain. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  api = await openApi();
  for (const who of ['own', 'other']) {
    const agent = (ids[`${who}_agent`] = await createAgent(api));
    const { body } = await api.call('POST', '/v1/batches', {
      requests: [{ agent_id: agent, input: 'Hello.' }],
    });
    const schedule = await api.call('POST', '/v1/schedules', {
      ...{ name: who, cron: '0 2 * * *', time_zone: 'UTC' },
      body: { requests: [{ agent_id: agent, input: 'Hello.' }] },
    });
    const [run] = (await api.call('GET', `/v1/runs?batch_id=${body.id}`)).body;
    const [block] = (await api.call('GET', `/v1/agents/${agent}/core-memory/blocks`)).body;
    Object.assign(ids, {
      [`${who}_job`]: body.id,
      [`${who}_run`]: run.id,
      [`${who}_schedule`]: schedule.body.id,
      [`${who}_block`]: block.id,
      [`${who}_step`]: toWireId('step', stepUuid({ run_id: run.id.slice(4), number: 1, attempt: 0 })),
      [`${who}_message`]: toWireId('message', messageUuid(run.conversation_id.slice(-36), 1)),
    });
  }
});
afterAll(() => api.close());

/** Never made: one of another version, and one with the time of a made id. */
const UNKNOWN = ['5f0c7c4e-0000-4000-8000-000000000000', 'ffffffff-ffff-7fff-bfff-ffffffffff00'];

/** Fills in `{own_agent}` and the like. */
const fill = (text: string): string => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? name);

async function refusal(list: string, parameter: string, cursor: string): Promise<unknown> {
  const url = `${fill(list)}${list.includes('?') ? '&' : '?'}${parameter}=${cursor}`;
  const { status, body } = await api.call('GET', url);
  return [status, body.code, body.errors];
}

const refused = (parameter: string): unknown => [
  422,
  'validation_failed',
  [{ path: `?${parameter}`, message: 'names no item of this list' }],
];

describe.each([
  ['/v1/agents', 'agent'],
  ['/v1/agents?order_by=updated_at', 'agent'],
  ['/v1/blocks', 'block'],
  ['/v1/blocks/{own_block}/agents', 'agent'],
  ['/v1/agents/{own_agent}/core-memory/blocks', 'block'],
  ['/v1/tools', 'tool'],
  ['/v1/agents/{own_agent}/tools', 'tool'],
  ['/v1/schedules', 'schedule'],
  ['/v1/batches', 'job'],
  ['/v1/messages/batches', 'job'],
  ['/v1/runs', 'run'],
  ['/v1/runs?batch_id={own_job}', 'run'],
  ['/v1/runs?active=true', 'run'],
  ['/v1/steps', 'step'],
  ['/v1/runs/{own_run}/steps', 'step'],
  ['/v1/runs/{own_run}/messages', 'message'],
  ['/v1/agents/{own_agent}/messages', 'message'],
  ['/v1/batches/{own_job}/messages', 'message'],
  ['/v1/batches/{own_job}/held-changes', 'block'],
])('%s', (list, prefix) => {
  test.each(['after', 'before'])('refuses an unknown %s', async (parameter) => {
    for (const uuid of UNKNOWN)
      for (const order of ['asc', 'desc'])
        expect(
          await refusal(
            `${list}${list.includes('?') ? '&' : '?'}order=${order}`,
            parameter,
            `${prefix}-${uuid}`,
          ),
        ).toEqual(refused(parameter));
  });
});

test.each([
  ['/v1/runs?batch_id={own_job}', '{other_run}'],
  ['/v1/runs?agent_id={own_agent}', '{other_run}'],
  ['/v1/runs?agent_ids={own_agent}&active=true', '{other_run}'],
  ['/v1/batches?schedule_id={own_schedule}', '{own_job}'],
  ['/v1/runs/{own_run}/steps', '{other_step}'],
  ['/v1/steps?run_id={own_run}', '{other_step}'],
  ['/v1/runs/{own_run}/messages', '{other_message}'],
  ['/v1/agents/{own_agent}/messages', '{other_message}'],
  ['/v1/batches/{own_job}/messages', '{other_message}'],
  ['/v1/batches/{own_job}/held-changes', '{other_block}'],
  ['/v1/batches/{own_job}/memory-changes', '{other_block}@1'],
  ['/v1/batches/{own_job}/memory-changes', '{own_block}@1'],
  ['/v1/blocks/{own_block}/revisions', '2'],
])('%s refuses the cursor %s of another list', async (list, cursor) => {
  for (const parameter of ['after', 'before'])
    expect(await refusal(list, parameter, fill(cursor))).toEqual(refused(parameter));
});

test('a message after the last is no cursor', async () => {
  const { body } = await api.call('GET', `/v1/runs/${ids['own_run']}`);
  const next = toWireId('message', messageUuid(body.conversation_id.slice(-36), 2));
  for (const list of [
    '/v1/runs/{own_run}/messages',
    '/v1/agents/{own_agent}/messages',
    '/v1/batches/{own_job}/messages',
  ])
    expect(await refusal(list, 'after', next)).toEqual(refused('after'));
});

test('skipped agents and the older name `cursor` are refused by their names too', async () => {
  expect(await refusal('/v1/batches/{own_job}/skipped', 'after', ids['other_agent'] ?? '')).toEqual(
    refused('after'),
  );
  expect(await refusal('/v1/batches/{own_job}/messages', 'cursor', ids['other_message'] ?? '')).toEqual(
    refused('cursor'),
  );
});

test('a deleted schedule remains a cursor of its list alone', async () => {
  const make = async (name: string): Promise<string> => {
    const body = { requests: [{ agent_id: ids['own_agent'], input: 'Hello.' }] };
    return (await api.call('POST', '/v1/schedules', { name, cron: '0 2 * * *', time_zone: 'UTC', body })).body
      .id;
  };
  const made = [await make('one'), await make('two'), await make('three')];
  await api.call('DELETE', `/v1/schedules/${made[1]}`);
  const after = await api.call('GET', `/v1/schedules?order=asc&after=${made[1]}`);
  expect(after.body.map(({ id }: { id: string }) => id)).toEqual([made[2]]);
  const asTool = `tool-${made[1]?.slice('schedule-'.length)}`;
  expect(await refusal('/v1/tools', 'after', asTool)).toEqual(refused('after'));
});
