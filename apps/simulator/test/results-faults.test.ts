import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, test } from 'vitest';
import type { RuleInput } from '../src/index.ts';
import { all, plainHeaders, requests, running } from './support/running.ts';
import type { ResultLine, Running } from './support/running.ts';

type Action = NonNullable<Exclude<RuleInput, { op: 'request' }>['action']>;

interface Read {
  readonly lines: ResultLine[];
  readonly error: unknown;
}

/** Ends a batch of ten and reads its results, changed by the actions, with the official client. */
async function read(actions: readonly Action[], started?: Running): Promise<Read> {
  const { simulator, client } = started ?? (await running({ settings: { result_order: 'submitted' } }));
  const { id } = await client.messages.batches.create({ requests: requests(10) });
  await simulator.control.command(id, 'end');
  if (actions.length > 0) simulator.control.addRule({ op: 'results', actions: [...actions] });
  const lines: ResultLine[] = [];
  try {
    for await (const line of await client.messages.batches.results(id)) lines.push(line);
  } catch (error) {
    return { lines, error };
  }
  return { lines, error: undefined };
}

describe('a result file read by the official client', () => {
  test.each<[string, Action[]]>([
    ['a normal file', []],
    ['a file without a final line break', [{ type: 'noFinalNewline' }]],
    ['a file with Windows line breaks', [{ type: 'crlf' }]],
    ['a compressed file', [{ type: 'gzip', on: true }]],
    ['a file in chunks of one byte', [{ type: 'chunks', bytes: 1 }]],
    ['a file without a content type', [{ type: 'contentType', value: null }]],
    ['a file with a pause', [{ type: 'stall', at_bytes: 700, ms: 30 }]],
    ['a slow file', [{ type: 'trickle', bytes_per_second: 200_000 }]],
  ])('%s is read whole', async (_name, actions) => {
    const { lines, error } = await read(actions);
    expect(error).toBeUndefined();
    expect(lines.map(({ custom_id }) => custom_id)).toEqual(requests(10).map(({ custom_id }) => custom_id));
  });

  test.each<[string, Action[], number]>([
    ['a blank line', [{ type: 'blankLine', at: 4 }], 4],
    ['a garbage line', [{ type: 'garbageLine', at: 4 }], 4],
    ['a second final line break', [{ type: 'extraNewline' }], 10],
    [
      'a clean end in the middle of a line',
      [{ type: 'cut', at_lines: 6, boundary: 'midline', how: 'clean' }],
      6,
    ],
  ])('%s is a SyntaxError after the lines before it', async (_name, actions, before) => {
    const { lines, error } = await read(actions);
    expect(error).toBeInstanceOf(SyntaxError);
    expect(lines).toHaveLength(before);
  });

  test.each<[string, Action[], number]>([
    ['a clean end between lines', [{ type: 'cut', at_lines: 6, how: 'clean' }], 6],
    ['an empty body', [{ type: 'cut', at_bytes: 0, how: 'clean' }], 0],
    [
      'a connection that is closed between lines, without any framing',
      [{ type: 'cut', at_fraction: 0.3, how: 'close_delimited' }],
      3,
    ],
    ['dropped lines', [{ type: 'dropLines', at: [1, 5] }], 8],
  ])('%s is short, and no error', async (_name, actions, count) => {
    const { lines, error } = await read(actions);
    expect(error).toBeUndefined();
    expect(lines).toHaveLength(count);
  });

  test.each<['fin' | 'rst' | 'short_content_length']>([['fin'], ['rst'], ['short_content_length']])(
    'a connection that breaks off (%s) is a bare TypeError',
    async (how) => {
      const { error } = await read([{ type: 'cut', at_lines: 5, how }]);
      expect(error).toBeInstanceOf(TypeError);
      expect(error).toHaveProperty('message', 'terminated');
    },
  );

  test('a compressed stream that lacks its end is short', async () => {
    const { lines, error } = await read([{ type: 'cut', at_lines: 5, boundary: 'midline', how: 'gzip' }]);
    expect(lines.length).toBeLessThanOrEqual(5);
    expect(error).toBeDefined();
  });

  test('a foreign line, a null line, a byte order mark and duplicates arrive unchanged', async () => {
    expect((await read([{ type: 'foreignLine', at: 0 }])).lines[0]?.custom_id).toBe('not-in-this-batch');
    expect((await read([{ type: 'nullLine', at: 2 }])).lines[2]).toBeNull();
    expect((await read([{ type: 'duplicateLines' }])).lines).toHaveLength(20);
    const { lines } = await read([{ type: 'duplicateLines', mode: 'conflicting' }]);
    expect(lines[0]?.custom_id).toBe(lines[1]?.custom_id);
    expect(lines[0]).not.toEqual(lines[1]);
    const marked = await read([{ type: 'bom' }]);
    expect(marked.lines.length === 10 || marked.error instanceof SyntaxError).toBe(true);
  });

  test('lines can be reordered', async () => {
    const plain = (await read([])).lines.map(({ custom_id }) => custom_id);
    expect(
      (await read([{ type: 'reorder', how: 'reverse' }])).lines.map(({ custom_id }) => custom_id),
    ).toEqual(plain.toReversed());
    const shuffled = (await read([{ type: 'reorder', how: 'shuffle' }])).lines.map(
      ({ custom_id }) => custom_id,
    );
    expect(shuffled).not.toEqual(plain);
    expect(shuffled.toSorted()).toEqual(plain.toSorted());
  });

  test('a 529 before the lines is retried, a 404 is not', async () => {
    const { simulator, client } = await running();
    const { id } = await client.messages.batches.create({ requests: requests(2) });
    await simulator.control.command(id, 'end');
    const patient = client.withOptions({ maxRetries: 2 });
    simulator.control.addRule({
      op: 'results',
      match: { times: 2 },
      action: { type: 'status', code: 529, headers: { 'retry-after-ms': '1' } },
    });
    expect(await all(await patient.messages.batches.results(id))).toHaveLength(2);
    simulator.control.clearRules();
    simulator.control.addRule({ op: 'results', action: { type: 'status', code: 404 } });
    await expect(patient.messages.batches.results(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    const outcomes = simulator.control.journal().entries.filter(({ op }) => op === 'results');
    expect(outcomes.map(({ status }) => status)).toEqual([529, 529, 200, 404]);
  });

  test('the results URL may be relative, foreign or absent', async () => {
    const { simulator, client } = await running();
    const { id } = await client.messages.batches.create({ requests: requests(2) });
    await simulator.control.command(id, 'end');
    simulator.control.addRule({ id: 'url', op: 'retrieve', action: { type: 'resultsUrl', to: 'relative' } });
    expect(await all(await client.messages.batches.results(id))).toHaveLength(2);
    simulator.control.addRule({ id: 'url', op: 'retrieve', action: { type: 'resultsUrl', to: 'null' } });
    await expect(client.messages.batches.results(id)).rejects.toThrow(/results_url/);
    simulator.control.addRule({
      id: 'url',
      op: 'retrieve',
      action: { type: 'resultsUrl', to: 'host', host: 'http://127.0.0.1:9' },
    });
    expect((await client.messages.batches.retrieve(id)).results_url).toMatch(
      /^http:\/\/127\.0\.0\.1:9\/v1\//,
    );
  });

  test('results of an archived batch are gone, the batch is not', async () => {
    const { simulator, client } = await running();
    const { id } = await client.messages.batches.create({ requests: requests(2) });
    await simulator.control.advance(1000);
    await simulator.control.advance(29 * 86_400_000);
    const batch = await client.messages.batches.retrieve(id);
    expect(batch).toMatchObject({ processing_status: 'ended', results_url: null });
    expect(batch.archived_at).not.toBeNull();
    const response = await fetch(`${simulator.apiUrl}/v1/messages/batches/${id}/results`, {
      headers: plainHeaders,
    });
    expect(response.status).toBe(404);
  });

  test('a client that stops reading does not affect the next', async () => {
    const started = await running();
    const { simulator, client } = started;
    const { id } = await client.messages.batches.create({ requests: requests(3000) });
    await simulator.control.command(id, 'end');
    for await (const _line of await client.messages.batches.results(id)) break;
    expect(await all(await client.messages.batches.results(id))).toHaveLength(3000);
  });
});
