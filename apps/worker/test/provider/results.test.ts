import { once } from 'node:events';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { splitLines } from '../../src/provider/line-splitter.ts';
import { ResultsInterrupted, type ResultsOutcome } from '../../src/provider/port.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { API_KEY, errorBody, scriptedServer, sendJson, wireBatch, type Answerer } from './scripted-server.ts';

const LINES = ['{"custom_id":"a"}', '{"custom_id":"b","é":1}', '{"custom_id":"c"}'];
const FILE = `${LINES.join('\n')}\n`;

function chunksOf(outcome: ResultsOutcome): AsyncIterable<Buffer> {
  if (outcome.outcome !== 'open') throw new Error(JSON.stringify(outcome));
  return outcome.chunks;
}

/** Reads the lines of a stream and the error that ended it. */
async function readLines(outcome: ResultsOutcome): Promise<{ texts: string[]; error: unknown }> {
  const texts: string[] = [];
  try {
    for await (const lines of splitLines(chunksOf(outcome), 1_000_000)) {
      for (const line of lines) texts.push(line.kind === 'line' ? line.text : line.head);
    }
  } catch (error) {
    return { texts, error };
  }
  return { texts, error: null };
}

async function stream(answer: Answerer, idleTimeoutMs = 2_000) {
  const server = await scriptedServer(answer);
  return { server, outcome: await server.provider.streamResults('msgbatch_01', { idleTimeoutMs }) };
}

describe('a result file', () => {
  test('is fetched by path from the configured host, never from results_url', async () => {
    const foreign = await scriptedServer((_seen, response) => response.end(FILE));
    const { server, outcome } = await stream((seen, response) => {
      if (seen.url.endsWith('/results')) response.end(FILE);
      else
        sendJson(response, 200, wireBatch({ processing_status: 'ended', results_url: `${foreign.url}/r` }));
    });
    expect(await readLines(outcome)).toEqual({ texts: LINES, error: null });
    expect(server.requests.map(({ url }) => url)).toEqual(['/v1/messages/batches/msgbatch_01/results']);
    expect(foreign.requests).toEqual([]);
  });

  test('is not fetched by a redirect to another host', async () => {
    const foreign = await scriptedServer((_seen, response) => response.end(FILE));
    const { outcome } = await stream((_seen, response) => {
      response.writeHead(302, { location: `${foreign.url}/r` });
      response.end();
    });
    expect(outcome).toMatchObject({ outcome: 'unavailable', status: 302 });
    expect(foreign.requests).toEqual([]);
  });

  test('is decompressed', async () => {
    const { outcome } = await stream((_seen, response) => {
      response.writeHead(200, { 'content-type': 'application/x-jsonl', 'content-encoding': 'gzip' });
      response.end(gzipSync(FILE));
    });
    expect(await readLines(outcome)).toEqual({ texts: LINES, error: null });
  });

  test('that is cut inside a line yields the lines before, then throws', async () => {
    const { outcome } = await stream((_seen, response) => {
      response.writeHead(200, { 'content-length': String(Buffer.byteLength(FILE)) });
      response.write(FILE.slice(0, FILE.indexOf('"é"')), () => response.destroy());
    });
    const { texts, error } = await readLines(outcome);
    expect(texts).toEqual([LINES[0]]);
    expect(error).toBeInstanceOf(ResultsInterrupted);
  });

  test('that falls silent is closed with its connection', async () => {
    let closed: Promise<unknown> = Promise.reject(new Error('never asked'));
    closed.catch(() => {});
    const { outcome } = await stream((_seen, response) => {
      closed = once(response, 'close');
      response.write(FILE);
    }, 1_000);
    const { texts, error } = await readLines(outcome);
    expect(texts).toEqual(LINES);
    expect(String(error)).toContain('silent for 1000 ms');
    await closed;
  });

  test('may be read slowly: the time between two chunks has no limit', async () => {
    const { outcome } = await stream((_seen, response) => {
      response.write(LINES[0]);
      response.end(LINES[1]);
    }, 500);
    let bytes = 0;
    for await (const chunk of chunksOf(outcome)) {
      bytes += chunk.length;
      // Longer than the idle timeout, which does not count the consumer's time.
      await new Promise((resolve) => setTimeout(resolve, 600));
    }
    expect(bytes).toBe(Buffer.byteLength(LINES[0]! + LINES[1]!));
  });

  test('is closed when a whole window is slower than the rate, however short the pauses', async () => {
    let closed: Promise<unknown> = Promise.reject(new Error('never asked'));
    closed.catch(() => {});
    const server = await scriptedServer((_seen, response) => {
      closed = once(response, 'close');
      response.write(FILE);
      const drip = setInterval(() => response.write('x'), 5);
      response.once('close', () => clearInterval(drip));
    });
    // Each wait for a byte takes two minutes by the injected clock.
    let ms = 0;
    const provider = anthropicProvider({ apiKey: API_KEY, baseURL: server.url, now: () => (ms += 60_000) });
    const rate = { bytesPerSecond: 1_000, windowMs: 300_000 };
    const { texts, error } = await readLines(
      await provider.streamResults('msgbatch_01', { idleTimeoutMs: 120_000, rate }),
    );
    expect(texts).toEqual(LINES);
    expect(error).toBeInstanceOf(ResultsInterrupted);
    expect(String(error)).toContain('slower than 1000 bytes a second over 300000 ms');
    expect(ms).toBe(2 * 60_000 * 5);
    await closed;
  });

  test.each([
    ['keeps the rate, however long it takes', { bytesPerSecond: 1, windowMs: 1 }, 1],
    ['is slow without a minimum rate', { bytesPerSecond: 0, windowMs: 1 }, 60_000],
    ['ends before the first window', { bytesPerSecond: 1_000_000, windowMs: 3_600_000 }, 60_000],
  ])('that %s is read to its end', async (_what, rate, stepMs) => {
    const server = await scriptedServer((_seen, response) => response.end(FILE));
    let ms = 0;
    const provider = anthropicProvider({ apiKey: API_KEY, baseURL: server.url, now: () => (ms += stepMs) });
    const outcome = await provider.streamResults('msgbatch_01', { idleTimeoutMs: 2_000, rate });
    expect(await readLines(outcome)).toEqual({ texts: LINES, error: null });
  });

  test('is closed when the reader stops early', async () => {
    let closed: Promise<unknown> | undefined;
    const { outcome } = await stream((_seen, response) => {
      closed = once(response, 'close');
      response.write(FILE);
    });
    for await (const _lines of splitLines(chunksOf(outcome), 1_000_000)) break;
    await closed;
  });

  test('ends when the caller aborts', async () => {
    const giveUp = new AbortController();
    const server = await scriptedServer((_seen, response) => void response.write(FILE));
    const outcome = await server.provider.streamResults('m', { idleTimeoutMs: 5_000, signal: giveUp.signal });
    const iterator = chunksOf(outcome)[Symbol.asyncIterator]();
    expect((await iterator.next()).value?.toString()).toBe(FILE);
    const next = iterator.next();
    giveUp.abort();
    await expect(next).rejects.toThrow(/aborted by the caller/);
  });

  test('that never sends headers is unavailable', async () => {
    const server = await scriptedServer(() => {}, 100);
    const outcome = await server.provider.streamResults('m', { idleTimeoutMs: 5_000 });
    expect(outcome).toMatchObject({ outcome: 'unavailable', reason: 'no complete answer within 100 ms' });
  });

  test('that is the HTML page of a proxy is refused', async () => {
    let closed: Promise<unknown> | undefined;
    const { outcome } = await stream((_seen, response) => {
      closed = once(response, 'close');
      response.writeHead(200, { 'content-type': 'Text/HTML; charset=utf-8' });
      response.write('<html>\n<p>This download is not allowed.\n');
    });
    expect(outcome).toEqual({
      outcome: 'unavailable',
      reason: 'HTTP 200 with a page of HTML instead of a result file',
      status: 200,
      retry_after_ms: null,
    });
    await closed;
  });

  test('without a body is unavailable', async () => {
    const { outcome } = await stream((_seen, response) => response.writeHead(204).end());
    expect(outcome).toMatchObject({ outcome: 'unavailable', status: 204 });
  });
});

describe('a missing result file', () => {
  const missing =
    (batch: Record<string, unknown> | null, status = 404): Answerer =>
    (seen, response) => {
      if (seen.url.endsWith('/results')) sendJson(response, status, errorBody('not_found_error'));
      else if (batch === null) sendJson(response, 404, errorBody('not_found_error'));
      else sendJson(response, 200, wireBatch(batch));
    };

  test.each<[string, Answerer, object]>([
    ['of a batch that has not ended is not ready', missing({}), { outcome: 'not_ready' }],
    ['is not ready when the API says 400 instead', missing({}, 400), { outcome: 'not_ready' }],
    [
      'of a batch that has just ended is not ready',
      missing({ processing_status: 'ended', results_url: 'https://x/r' }),
      { outcome: 'not_ready' },
    ],
    [
      'of an archived batch is gone',
      missing({ processing_status: 'ended', archived_at: '2026-12-20T00:00:00Z' }),
      { outcome: 'archived', archived_at: new Date('2026-12-20T00:00:00Z') },
    ],
    ['of an unknown batch is not found', missing(null), { outcome: 'not_found' }],
    [
      'is unavailable when the provider is overloaded',
      (_seen, response) => sendJson(response, 529, errorBody('overloaded_error'), { 'retry-after': '1' }),
      { outcome: 'unavailable', status: 529, retry_after_ms: 1000, reason: 'HTTP 529: the overloaded_error' },
    ],
    [
      'is unavailable when the batch cannot be asked about',
      (seen, response) => {
        if (seen.url.endsWith('/results')) sendJson(response, 404, errorBody('not_found_error'));
        else sendJson(response, 500, errorBody('api_error'));
      },
      { outcome: 'unavailable', status: 500, retry_after_ms: null, reason: 'HTTP 500: the api_error' },
    ],
  ])('%s', async (_name, answer, expected) => {
    const { outcome } = await stream(answer);
    expect(outcome).toEqual(expected);
  });
});
