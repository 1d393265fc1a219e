import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  decodeResultLine,
  encodeDefinition,
  encodeRequest,
  toolResult,
  toolUsesOf,
  type DecodedLine,
  type Definition,
} from '@nightshift/agent-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  startSimulator,
  type RuleInput,
  type Simulator,
  type SettingsChange,
} from '../../../simulator/src/index.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { openBodyFile } from '../../src/provider/body-file.ts';
import { splitLines, type Line } from '../../src/provider/line-splitter.ts';
import type { CreateOutcome, ProviderPort } from '../../src/provider/port.ts';

const START_MS = Date.parse('2026-11-20T20:00:00Z');
const DAY_MS = 24 * 60 * 60 * 1000;

const definition: Definition = {
  id: '00000000-0000-7000-8000-000000000000',
  agent_type: 'letta_v1_agent',
  system: 'Keep the memory of this customer.',
  model: 'anthropic/claude-opus-5',
  model_settings: { max_output_tokens: 4096, parallel_tool_calls: false, extra: { temperature: 0.3 } },
  tool_rules: [],
  context_window_limit: 128_000,
  compaction: { mode: 'none' },
  tools: [
    {
      name: 'core_memory_append',
      kind: 'memory',
      description: 'Appends to a block.',
      input_schema: {
        type: 'object',
        properties: { label: { type: 'string' }, content: { type: 'string' } },
        required: ['label', 'content'],
      },
      side_effects: 'idempotent',
      return_char_limit: 50_000,
      timeout_ms: 1000,
      requires_approval: false,
    },
  ],
};
const encoded = encodeDefinition(definition);

interface House {
  readonly simulator: Simulator;
  readonly provider: ProviderPort;
  /** Sends requests, by custom id and messages, through a body file. */
  create(requests: ReadonlyMap<string, string>, timeoutMs?: number): Promise<CreateOutcome>;
}

async function house(settings: SettingsChange = {}, rules: readonly RuleInput[] = []): Promise<House> {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-provider-'));
  const simulator = await startSimulator({
    clock: 'virtual',
    startMs: START_MS,
    dataDir: join(dir, 'simulator'),
    settings: { latency: 'fixed:60000', ...settings },
  });
  onTestFinished(async () => {
    await simulator.close();
    await rm(dir, { recursive: true, force: true });
  });
  for (const rule of rules) simulator.control.addRule(rule);
  const provider = anthropicProvider({ apiKey: 'test-key', baseURL: simulator.apiUrl });
  return {
    simulator,
    provider,
    async create(requests, timeoutMs = 5_000) {
      const file = await openBodyFile(dir);
      for (const [customId, messages_json] of requests) {
        const parts = { memory: `<memory>${customId}</memory>`, messages_json, max_tokens: 4096 };
        await file.append(Buffer.from(encodeRequest(customId, encoded, parts)));
      }
      const body = await file.finish();
      const outcome = await provider.createBatch(await body.blob(), { timeoutMs });
      await body.discard();
      return outcome;
    },
  };
}

const user = (text: string): string => JSON.stringify({ role: 'user', content: text });
const simple = (count: number): Map<string, string> =>
  new Map(Array.from({ length: count }, (_, n) => [`nonce1-${n}-1`, `[${user(`customer ${n}`)}]`]));

function idOf(outcome: CreateOutcome): string {
  if (outcome.outcome !== 'created') throw new Error(JSON.stringify(outcome));
  return outcome.batch.provider_id;
}

/** Reads a batch's decoded result lines, the error that ended them, and whether the last was cut. */
async function resultsOf(provider: ProviderPort, id: string) {
  const opened = await provider.streamResults(id, { idleTimeoutMs: 5_000 });
  if (opened.outcome !== 'open') throw new Error(JSON.stringify(opened));
  const decoded: DecodedLine[] = [];
  let last: Line | undefined;
  let error: unknown = null;
  try {
    for await (const lines of splitLines(opened.chunks, 1_000_000)) {
      for (const line of lines) decoded.push(decodeResultLine(line.kind === 'line' ? line.text : line.head));
      last = lines.at(-1);
    }
  } catch (thrown) {
    error = thrown;
  }
  return { decoded, error, isLastTerminated: last?.terminated ?? true };
}

describe('against the simulator', () => {
  test('a conversation of two steps is sent back unchanged to the character', async () => {
    const { simulator, provider, create } = await house({ default_script: 'thinking' });
    const id = idOf(await create(simple(3)));
    expect(await provider.streamResults(id, { idleTimeoutMs: 5_000 })).toEqual({ outcome: 'not_ready' });
    expect(await provider.retrieveBatch(id)).toMatchObject({
      batch: { processing_status: 'in_progress', request_count: 3, has_results: false },
    });

    await simulator.control.advance(60_000);
    expect(await provider.retrieveBatch(id)).toMatchObject({
      batch: { processing_status: 'ended', counts: { succeeded: 3 }, has_results: true },
    });
    const first = await resultsOf(provider, id);
    expect(first).toMatchObject({ error: null, isLastTerminated: true });

    // The simulator signs its thinking blocks and refuses a changed transcript.
    const second = new Map<string, string>();
    for (const line of first.decoded) {
      if (line.kind !== 'answered') throw new Error(JSON.stringify(line));
      expect(line.answer).toMatchObject({
        stop_reason: 'tool_use',
        model: 'claude-opus-5',
      });
      expect(line.answer.usage.output_tokens).toBeGreaterThan(0);
      const results = toolUsesOf(line.answer.content).map((call) => toolResult(call.id, 'OK', false));
      expect(results).toHaveLength(1);
      const messages = [
        user(`customer ${line.custom_id.split('-')[1]}`),
        `{"role":"assistant","content":${line.answer.content_json}}`,
        `{"role":"user","content":${JSON.stringify(results)}}`,
      ];
      second.set(line.custom_id.replace('nonce1', 'nonce2'), `[${messages.join(',')}]`);
    }
    const next = idOf(await create(second));
    await simulator.control.advance(60_000);
    const { decoded } = await resultsOf(provider, next);
    expect(new Set(decoded.map((line) => ('custom_id' in line ? line.custom_id : null)))).toEqual(
      new Set(second.keys()),
    );
    for (const line of decoded)
      expect(line).toMatchObject({ kind: 'answered', answer: { stop_reason: 'end_turn' } });
    expect(simulator.control.ledger()).toMatchObject({ totals: { requests: 6 }, repeats: [] });
  });

  test.each([
    'commitThenDrop',
    'commitThenHang',
    'commitThenPartialBody',
    'commitThenTruncatedJson',
    'commitThenHtml200',
    'commitThenNoId',
  ] as const)('a create with a lost answer (%s) was sent once and is found in the list', async (type) => {
    const { simulator, provider, create } = await house({}, [{ op: 'create', action: { type } }]);
    expect(await create(simple(4), 500)).toMatchObject({ outcome: 'unknown' });
    const sent = simulator.control.journal().entries.filter((entry) => entry.op === 'create');
    expect(sent).toMatchObject([{ retry_count: 0, committed: expect.any(String) as unknown }]);
    expect(await provider.listBatches({ createdAfter: new Date(START_MS - 1000) })).toMatchObject({
      complete: true,
      batches: [{ provider_id: sent[0]!.committed, request_count: 4 }],
    });
  });

  test('a refused create creates no batch', async () => {
    const { simulator, create } = await house({ max_body_bytes: 1000 });
    expect(await create(new Map([['bad id', '[]']]))).toMatchObject({
      outcome: 'refused',
      what: 'bad_request',
    });
    expect(await create(simple(10))).toMatchObject({ outcome: 'refused', what: 'too_large', status: 413 });
    expect(simulator.control.batches()).toEqual([]);
  });

  test('all outcomes of a single request are distinguished', async () => {
    const errored = { type: 'errored', error_type: 'overloaded_error', message: 'Overloaded' } as const;
    const { simulator, provider, create } = await house({}, [
      { op: 'request', match: { custom_id: '-0-' }, outcome: errored },
      { op: 'request', match: { custom_id: '-1-' }, outcome: { type: 'expire' } },
      { op: 'request', match: { custom_id: '-2-' }, outcome: { type: 'cancel' } },
    ]);
    const id = idOf(await create(simple(4)));
    await simulator.control.advance(60_000);
    const { decoded } = await resultsOf(provider, id);
    const kinds = decoded
      .map((line) => ('custom_id' in line ? `${line.custom_id} ${line.kind}` : line.kind))
      .sort();
    expect(kinds).toEqual([
      'nonce1-0-1 errored',
      'nonce1-1-1 expired',
      'nonce1-2-1 canceled',
      'nonce1-3-1 answered',
    ]);
    expect(decoded).toContainEqual(
      expect.objectContaining({ error_type: 'overloaded_error', message: 'Overloaded' }),
    );
  });

  test.each(['rst', 'short_content_length', 'fin'] as const)(
    'a result file that is cut within a line by %s gives the lines before',
    async (how) => {
      const { simulator, provider, create } = await house({}, [
        { op: 'results', action: { type: 'cut', at_lines: 3, boundary: 'midline', how } },
      ]);
      const id = idOf(await create(simple(6)));
      await simulator.control.advance(60_000);
      const { decoded, error } = await resultsOf(provider, id);
      expect(error).toMatchObject({ name: 'ResultsInterrupted' });
      expect(decoded.length).toBeLessThanOrEqual(3);
      for (const line of decoded) expect(line.kind).toBe('answered');
    },
  );

  test('a cut that looks like an end shows in the last line or in the missing ids', async () => {
    const { simulator, provider, create } = await house();
    const id = idOf(await create(simple(6)));
    await simulator.control.advance(60_000);
    const cut = { type: 'cut', at_lines: 3, how: 'clean' } as const;
    simulator.control.addRule({ id: 'cut', op: 'results', action: { ...cut, boundary: 'midline' } });
    const within = await resultsOf(provider, id);
    expect(within).toMatchObject({ error: null, isLastTerminated: false });
    expect(within.decoded.at(-1)?.kind).toBe('unreadable');
    simulator.control.addRule({ id: 'cut', op: 'results', action: { ...cut, boundary: 'newline' } });
    const between = await resultsOf(provider, id);
    expect(between).toMatchObject({ error: null, isLastTerminated: true });
    expect(between.decoded).toHaveLength(3);
  });

  test('a bad line affects no other line', async () => {
    const { simulator, provider, create } = await house({ results_gzip: true, results_content_type: null }, [
      {
        op: 'results',
        actions: [
          { type: 'bom' },
          { type: 'crlf' },
          { type: 'garbageLine' },
          { type: 'blankLine' },
          { type: 'nullLine' },
          { type: 'noFinalNewline' },
          { type: 'chunks', bytes: 7 },
        ],
      },
    ]);
    const id = idOf(await create(simple(5)));
    await simulator.control.advance(60_000);
    const { decoded, error } = await resultsOf(provider, id);
    expect(error).toBeNull();
    expect(decoded.filter((line) => line.kind === 'answered')).toHaveLength(5);
    expect(decoded.filter((line) => line.kind === 'unreadable')).toHaveLength(2);
  });

  test('a foreign results_url is never contacted', async () => {
    const { simulator, provider, create } = await house({}, [
      { op: 'retrieve', action: { type: 'resultsUrl', to: 'host', host: 'http://127.0.0.1:9' } },
    ]);
    const id = idOf(await create(simple(2)));
    await simulator.control.advance(60_000);
    expect((await resultsOf(provider, id)).decoded).toHaveLength(2);
  });

  test('archived results are reported as archived, and an unknown batch as not found', async () => {
    const { simulator, provider, create } = await house();
    const id = idOf(await create(simple(2)));
    await simulator.control.advance(30 * DAY_MS);
    expect(await provider.streamResults(id, { idleTimeoutMs: 5_000 })).toMatchObject({ outcome: 'archived' });
    expect(await provider.streamResults('msgbatch_none', { idleTimeoutMs: 5_000 })).toEqual({
      outcome: 'not_found',
    });
    expect(await provider.retrieveBatch('msgbatch_none')).toEqual({ outcome: 'not_found' });
    expect(await provider.cancelBatch('msgbatch_none')).toEqual({ outcome: 'not_found' });
  });

  test('cancelling ends the batch, and cancelling it again is no error', async () => {
    const { simulator, provider, create } = await house();
    const id = idOf(await create(simple(2)));
    expect(await provider.cancelBatch(id)).toMatchObject({ batch: { processing_status: 'canceling' } });
    await simulator.control.advance(60_000);
    expect(await provider.cancelBatch(id)).toMatchObject({
      outcome: 'found',
      batch: { processing_status: 'ended' },
    });
  });

  test('the list goes back to a given time and includes batches of other applications', async () => {
    const { simulator, provider, create } = await house({ timestamps: { format: 'offset' } }, [
      { op: 'list', action: { type: 'smallPages', size: 2 } },
    ]);
    for (let n = 1; n <= 7; n++) {
      idOf(await create(simple(n)));
      await simulator.control.advance(1000);
    }
    const listed = await provider.listBatches({ createdAfter: new Date(START_MS + 2000) });
    expect(listed.complete).toBe(true);
    expect(listed.batches.map((batch) => batch.request_count)).toEqual([7, 6, 5, 4, 3]);
  });
});
