import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createNightshift } from '../../libs/client/src/index.ts';
import { openStackHouse, type StackHouse } from './house.ts';

/** Calls under way at the service at a time, the most so far, and the last request. */
const service = { underWay: 0, most: 0, last: undefined as IncomingMessage | undefined };
/** Ends the waiting answers of the service. */
let answerAll: () => void = () => undefined;
let whenAnswered = Promise.resolve();

const server = createServer((request, response) => {
  service.last = request;
  service.underWay += 1;
  service.most = Math.max(service.most, service.underWay);
  void whenAnswered.then(() => {
    service.underWay -= 1;
    response.end(JSON.stringify({ items: [`weather of ${request.url ?? ''}`] }));
  });
});

let house: StackHouse;
let origin: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  house = await openStackHouse({
    simulatorLatency: 'fixed:0',
    workers: 1,
    workerEnv: { TOOLS_ALLOW_PRIVATE: '1' },
  });
});
afterAll(async () => {
  await house.close();
  server.close();
});

/** Keeps all answers of the service waiting until `answerAll`. */
function holdAnswers(): void {
  const held = Promise.withResolvers<void>();
  whenAnswered = held.promise;
  answerAll = held.resolve;
}

const place = { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] };

async function resultsOf(batchId: string): Promise<readonly string[]> {
  const { rows } = await house.stack.pool.query<{ result: string }>(
    `select part->>'content' as result
       from message m join run r on r.id = m.run_id, json_array_elements(m.content) part
      where r.batch_id = $1 and m.role = 'user' and part->>'type' = 'tool_result'
      order by r.ordinal`,
    [batchId.replace(/^\w+-/, '')],
  );
  return rows.map(({ result }) => result);
}

test('the result of an HTTP tool reaches the model, its secret reaches the service alone', async () => {
  await createNightshift({ url: house.stack.apiUrl, apiKey: house.stack.apiKey }).request(
    ...(['PUT', '/v1/secrets/WEATHER_KEY', { json: { value: 'canary-of-the-weather' } }] as const),
  );
  await house.client.post('/v1/tools', {
    source_type: 'http',
    side_effects: 'none',
    json_schema: { name: 'weather', description: 'Says how the weather is.', parameters: place },
    http: {
      method: 'GET',
      url: `${origin}/weather/{{place}}`,
      headers: { authorization: 'Bearer {{secrets.WEATHER_KEY}}' },
      result: '/items/0',
    },
  });
  const agent = await house.createAgent('weather', ['weather']);
  const batch = await house.submit([agent], () =>
    JSON.stringify({ tool: 'weather', args: { place: 'A/B' } }),
  );
  await house.untilStatus(batch, 'completed');
  expect(await resultsOf(batch)).toEqual(['weather of /weather/A%2FB']);
  expect(service.last?.headers.authorization).toBe('Bearer canary-of-the-weather');
  const { rows } = await house.stack.pool.query<{ row: string }>(
    `select m::text as row from message m union all select t::text from tool t union all select d::text from definition d
      union all select c::text from tool_call c`,
  );
  expect(rows.filter(({ row }) => row.includes('canary'))).toEqual([]);
});

test('uploaded code runs with its secret, fetches from its hosts alone, and its result reaches the model', async () => {
  const { host } = new URL(origin);
  await house.client.post('/v1/tools', {
    source_type: 'typescript',
    source_code: `
      export async function look_up(place: string): Promise<unknown> {
        const headers = { authorization: 'Bearer ' + process.env.WEATHER_KEY };
        const answer = await fetch('${origin}/places/' + place, { headers });
        const elsewhere = await fetch('http://127.0.0.1:1/').catch((error: Error) => error.message);
        return { answer: await answer.json(), elsewhere };
      }`,
    json_schema: { name: 'look_up', description: 'Looks a place up.', parameters: place },
    network: [host],
    secrets: ['WEATHER_KEY'],
  });
  const agent = await house.createAgent('look up', ['look_up']);
  const batch = await house.submit([agent], () =>
    JSON.stringify({ tool: 'look_up', args: { place: 'Oslo' } }),
  );
  await house.untilStatus(batch, 'completed');
  const [result] = await resultsOf(batch);
  expect(JSON.parse(result ?? '')).toEqual({
    answer: { items: ['weather of /places/Oslo'] },
    elsewhere: expect.stringContaining('not in the tool') as string,
  });
  expect(service.last?.headers.authorization).toBe('Bearer canary-of-the-weather');
});

test('600 waiting calls are under way at once, and a run with a quick call beside them does not wait', async () => {
  await house.client.post('/v1/tools', {
    source_type: 'http',
    side_effects: 'none',
    timeout_ms: 120_000,
    json_schema: { name: 'slow', description: 'Waits.', parameters: place },
    http: { method: 'GET', url: `${origin}/slow/{{place}}` },
  });
  const agents = await Promise.all(
    Array.from({ length: 600 }, (_, index) => house.createAgent(`slow ${index}`, ['slow'])),
  );
  const quick = await house.createAgent('quick', ['compare_versions']);
  holdAnswers();
  service.most = 0;
  const slow = await house.submit(agents, (index) =>
    JSON.stringify({ tool: 'slow', args: { place: String(index) } }),
  );
  await expect.poll(() => service.most, { timeout: 60_000 }).toBe(600);
  const beside = await house.submit([quick], () =>
    JSON.stringify({ tool: 'compare_versions', args: { versions: ['1.10.0', '1.9.0'] } }),
  );
  await house.untilStatus(beside, 'completed');
  expect(service.underWay).toBe(600);
  answerAll();
  const ended = await house.untilStatus(slow, 'completed');
  expect(ended.counts).toMatchObject({ completed: 600, total: 600 });
}, 180_000);
