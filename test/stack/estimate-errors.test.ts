import type {} from '../../test/global-setup.ts';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { buildServer } from '../../apps/api/src/index.ts';
import { openHouse, type House } from '../../apps/worker/test/flows/house.ts';
import type { ToolPort } from '../runners-of.ts';
import { memoryLabels, readSamples, type ReleaseNote } from '../../scripts/samples/sample.ts';
import {
  buildBlocks,
  buildTranscript,
  rewriteInstruction,
  systemPrompt,
} from '../../scripts/samples/transcript.ts';

const KEY = 'ns_key_of_the_test_of_estimates';
const MODEL = 'anthropic/claude-haiku-4-5';
/** Shares of the bill by which an estimate may miss it, on the first night and later. */
const FIRST = 0.3;
const LATER = 0.1;

const LOOK_UP = {
  name: 'look_up',
  description: 'Looks up an order.',
  input_schema: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
  side_effects: 'none',
  return_char_limit: 1_000,
  timeout_ms: 1_000,
} as const;

const LOOKS: ToolPort = {
  runCalls: (calls) =>
    Promise.resolve(
      calls.map(({ call_id, tool_use_id }) => ({
        call_id,
        status: 'succeeded' as const,
        result: `${tool_use_id}: ${'The order left the warehouse on Monday and reached the depot on Tuesday. '.repeat(4)}`,
        duration_ms: 1,
        started: true,
      })),
    ),
};

let house: House;
let app: ReturnType<typeof buildServer>;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), { modules: [LOOK_UP] });
  app = buildServer({
    db: house.database.db,
    bell: { ring: () => Promise.resolve() },
    apiKey: KEY,
    model: 'simulator',
  });
  await app.ready();
});
afterEach(async () => {
  await app.close();
  await house.close();
});

async function request<Body>(method: 'GET' | 'POST', url: string, payload?: object): Promise<Body> {
  const answer = await app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${KEY}` },
    ...(payload === undefined ? {} : { payload }),
  });
  expect(answer.statusCode, answer.body.slice(0, 500)).toBeLessThan(300);
  return answer.json();
}

interface Night {
  readonly expected: number;
  readonly bill: number;
  readonly error: number;
}

/** Estimates and runs a batch, and returns its figures. */
async function night(
  body: object,
  worker = house.worker({ settings: { chunk_lines: 1_000 } }),
): Promise<Night> {
  const estimate = await request<{ cost_usd: { expected: string } }>('POST', '/v1/batches/estimate', body);
  const { id } = await request<{ id: string }>('POST', '/v1/batches', body);
  await house.drive(worker, { rounds: 3_000 });
  const batch = await request<{
    expected_cost_usd: string;
    estimate_error: number;
    usage: { cost_usd: string };
  }>('GET', `/v1/batches/${id}`);
  const bill = Number(batch.usage.cost_usd);
  const found = { expected: Number(estimate.cost_usd.expected), bill, error: batch.estimate_error };
  // The stored expectation equals the estimate, but for the sample.
  expect(Number(batch.expected_cost_usd) / found.expected).toBeGreaterThan(0.95);
  expect(Number(batch.expected_cost_usd) / found.expected).toBeLessThan(1.05);
  expect(found.error).toBeCloseTo((Number(batch.expected_cost_usd) - bill) / bill, 6);
  return found;
}

async function createAgent(rest: object): Promise<string> {
  const { id } = await request<{ id: string }>('POST', '/v1/agents', { model: MODEL, ...rest });
  return id;
}

describe('the estimate is near the bill', () => {
  test('of rewrites of memory', async () => {
    const samples = readSamples().slice(0, 40);
    const agents: { readonly agent_id: string; readonly sample: (typeof samples)[number] }[] = [];
    for (const sample of samples) {
      const agent_id = await createAgent({
        name: sample.custom_id,
        system: systemPrompt,
        include_base_tools: false,
        tags: ['demo'],
        memory_blocks: buildBlocks(),
      });
      agents.push({ agent_id, sample });
    }
    const append = (notesOf: (notes: readonly ReleaseNote[]) => readonly ReleaseNote[]): Promise<unknown> =>
      request('POST', '/v1/messages/append', {
        items: agents.map(({ agent_id, sample }) => ({
          agent_id,
          messages: buildTranscript(sample, notesOf(sample.notes)),
        })),
      });
    const body = {
      kind: 'memory_rewrite',
      agents: { tags: ['demo'] },
      blocks: memoryLabels,
      instruction: rewriteInstruction,
    };
    await append((notes) => notes.slice(1));
    const first = await night(body);
    await append((notes) => notes.slice(0, 1));
    const second = await night(body);
    expect(Math.abs(first.error)).toBeLessThan(FIRST);
    expect(Math.abs(second.error)).toBeLessThan(LATER);
  });

  test('of a file of tasks', async () => {
    const agent_id = await createAgent({
      name: 'tasks',
      system: 'You answer questions about orders. '.repeat(20),
    });
    const body = (day: number) => ({
      requests: Array.from({ length: 3_000 }, (_, index) => ({
        agent_id,
        custom_id: `task-${index}`,
        conversation: 'isolated',
        input: `Day ${day}, order ${index}: ${'the parcel did not arrive and the customer asks why. '.repeat(4)}`,
      })),
    });
    const first = await night(body(1));
    const second = await night(body(2));
    expect(Math.abs(first.error)).toBeLessThan(FIRST);
    expect(Math.abs(second.error)).toBeLessThan(LATER);
  });

  test('of a template with typed results', async () => {
    const agent_id = await createAgent({
      name: 'typed',
      system: 'You sort messages. '.repeat(30),
      include_base_tools: false,
    });
    const body = (day: number) => ({
      template: {
        agent_id,
        input: `Sort this message of day ${day}: {{ text }}\n{"answer": {"topic": "parcel", "reason": "{{ text }}"}}`,
        response_format: {
          type: 'json_schema',
          json_schema: {
            name: 'sorted',
            schema: {
              type: 'object',
              required: ['topic', 'reason'],
              properties: { topic: { type: 'string' }, reason: { type: 'string' } },
            },
          },
        },
      },
      inputs: Array.from({ length: 200 }, (_, index) => ({
        custom_id: `message-${index}`,
        variables: {
          text: `Number ${index} says that the parcel is late and asks for a refund of the price.`,
        },
      })),
    });
    const first = await night(body(1));
    const second = await night(body(2));
    expect(Math.abs(first.error)).toBeLessThan(FIRST);
    expect(Math.abs(second.error)).toBeLessThan(LATER);
  });

  test('of a loop of ten steps', async () => {
    const agent_id = await createAgent({
      name: 'loop',
      system: 'You keep a list. '.repeat(60),
      include_base_tools: false,
      tools: ['look_up'],
    });
    const body = {
      requests: Array.from({ length: 60 }, () => ({
        agent_id,
        conversation: 'isolated',
        max_steps: 12,
        input: 'Look nine times, then tell what you found. ⟦sim:toolLoop?tool=look_up&n=9⟧',
      })),
    };
    const worker = house.worker({ tools: LOOKS });
    const first = await night(body, worker);
    const second = await night(body, worker);
    expect(Math.abs(first.error)).toBeLessThan(FIRST);
    expect(Math.abs(second.error)).toBeLessThan(LATER);
  });
});
