import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { onTestFinished } from 'vitest';
import { startSimulator } from '../../src/index.ts';
import type { Simulator, SimulatorOptions } from '../../src/index.ts';

/** Starts a simulator on a virtual clock with a client; both end with the test. */
export interface Running {
  readonly simulator: Simulator;
  readonly client: Anthropic;
}

export async function running(options: SimulatorOptions = {}): Promise<Running> {
  const dataDir = await mkdtemp(join(tmpdir(), 'simulator-'));
  const simulator = await startSimulator({
    clock: 'virtual',
    dataDir,
    ...options,
    settings: { latency: 'fixed:1000', ...options.settings },
  });
  onTestFinished(async () => {
    await simulator.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  const client = new Anthropic({
    apiKey: 'test-key',
    baseURL: simulator.apiUrl,
    maxRetries: 0,
    logLevel: 'off',
  });
  return { simulator, client };
}

export type BatchRequest = Anthropic.Messages.Batches.BatchCreateParams.Request;
export type ResultLine = Anthropic.Messages.Batches.MessageBatchIndividualResponse;

/** Creates a request with one user message. */
export function request(
  custom_id: string,
  content = `hello from ${custom_id}`,
  more: object = {},
): BatchRequest {
  return {
    custom_id,
    params: { model: 'claude-opus-5', max_tokens: 1000, messages: [{ role: 'user', content }], ...more },
  };
}

export const requests = (count: number): BatchRequest[] =>
  Array.from({ length: count }, (_, i) => request(`r-${i}`));

export async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) found.push(one);
  return found;
}

/** Creates a batch, ends it, and reads its results with the official client. */
export async function roundTrip(
  { simulator, client }: Running,
  items: BatchRequest[],
): Promise<ResultLine[]> {
  const { id } = await client.messages.batches.create({ requests: items });
  await simulator.control.command(id, 'end');
  return all(await client.messages.batches.results(id));
}

/** Headers for requests without the official client. */
export const plainHeaders = { 'x-api-key': 'test-key', 'anthropic-version': '2026-10-21' };

/** Returns the content of a succeeded line. */
export function messageOf(line: ResultLine | undefined): Anthropic.Messages.Message {
  if (line?.result.type !== 'succeeded') throw new Error(`expected a success, not ${JSON.stringify(line)}`);
  return line.result.message;
}
