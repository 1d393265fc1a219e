import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, expect, inject } from 'vitest';
import type { ToolPort } from '../../../../test/runners-of.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ToolReply, ToolRequest } from '../../src/tools/runner.ts';
import { call, LONG_CHECK, openHouse, type House, type SubmittedBatch } from './house.ts';

/** The house of the current test, with tools of all side effects. */
export let house: House;

/** Opens the house before each test of a file, and closes it after. */
export function openHouseForEach(): void {
  beforeEach(open);
  afterEach(() => house.close());
}

async function open(): Promise<void> {
  house = await openHouse(inject('postgresUrl'), {
    modules: (
      [
        ['none', 'none', 1_000],
        ['idempotent', 'idempotent', 1_000],
        ['once', 'once', 1_000],
        ['wordy', 'none', 1_000_000],
        ['checked', 'once', 1_000],
      ] as const
    ).map(([name, side_effects, return_char_limit]) => ({
      name: `act_${name}`,
      description: 'Does something in the world.',
      input_schema: {
        type: 'object',
        properties: { what: { type: 'string', ...(name === 'checked' ? LONG_CHECK : {}) } },
        required: ['what'],
      },
      side_effects,
      return_char_limit,
      timeout_ms: 1_000,
    })),
  });
}

export const TOOLS = ['act_none', 'act_idempotent', 'act_once', 'act_wordy', 'act_checked'] as const;
type Tool = (typeof TOOLS)[number];

/** A run for each list of calls; all calls of a list are made in one step. */
export function submitCalls(
  runs: readonly (readonly (readonly [Tool, string])[])[],
): Promise<SubmittedBatch> {
  return house.submit(
    runs.map((calls) => ({
      input: calls.map(([tool, what], index) => call(tool, { what }, index > 0)).join('\n'),
      tools: TOOLS,
    })),
  );
}

/** Takes all runs to their pending calls, in one chunk. */
export async function untilActing(): Promise<void> {
  const worker = house.worker({ settings: { chunk_lines: 1_000 } });
  for (let round = 0; round < 200; round++) {
    for (const flow of [composeProviderBatch, submitProviderBatch, pollProviderBatches, ingestResults]) {
      await flow(worker);
    }
    const chunks = await house.rows(`select 1 from run_chunk where kind = 'tools'`);
    if (chunks.length > 0) {
      expect(chunks).toHaveLength(1);
      return;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('No run came to its calls.');
}

export const whatOf = (request: ToolRequest): string => (request.arguments as { what: string }).what;

export function reply(
  request: ToolRequest,
  status: ToolReply['status'] = 'succeeded',
  started = true,
  result = `${whatOf(request)} is ${status}`,
): ToolReply {
  return { call_id: request.call_id, status, result, duration_ms: 1, started };
}

/** A tool host that makes its calls and records them. */
export function world(resultOf?: (request: ToolRequest) => string): { tools: ToolPort; done: ToolRequest[] } {
  const done: ToolRequest[] = [];
  return {
    done,
    tools: {
      async runCalls(calls) {
        done.push(...calls);
        return calls.map((request) => reply(request, 'succeeded', true, resultOf?.(request)));
      },
    },
  };
}

export const timesDone = (done: readonly ToolRequest[]): Record<string, number> => {
  const times: Record<string, number> = {};
  for (const request of done) times[whatOf(request)] = (times[whatOf(request)] ?? 0) + 1;
  return times;
};

export async function statesOf(batch: SubmittedBatch): Promise<readonly string[]> {
  const rows = await house.rows<{ state: string }>(
    `select c.state from tool_call c join run r on r.id = c.run_id where r.batch_id = $1
      order by r.ordinal, c.step_number, c.call_index`,
    [batch.id],
  );
  return rows.map((row) => row.state);
}

/** Reads the results that the model received for the calls of a run. */
export async function resultsOf(
  runId: string | undefined,
): Promise<readonly { content: string; is_error?: boolean }[]> {
  const [row] = await house.rows<{ content: { content: string; is_error?: boolean }[] }>(
    `select content from message where run_id = $1 and role = 'user' and step_number = 1`,
    [runId],
  );
  return row?.content ?? [];
}

/** Refuses rows, by default as rows that cannot be stored. */
export const refuse = (table: string, test: string, when = 'insert', errcode = '22P05'): Promise<unknown[]> =>
  house.rows(`
    create function refuse_${table}() returns trigger language plpgsql as $$
    begin
      if ${test} then raise exception 'no arsenic' using errcode = '${errcode}'; end if;
      return new;
    end $$;
    create trigger arsenic before ${when} on ${table} for each row execute function refuse_${table}()`);

/** Holds back the calls named `slow` until `whenSlow`. */
export function slowed(worker: FlowDeps, whenSlow: Promise<void>): FlowDeps {
  const { tools } = worker;
  return {
    ...worker,
    tools: {
      ...tools,
      async run(request, options) {
        if (whatOf(request) === 'slow') await whenSlow;
        return tools.run(request, options);
      },
    },
  };
}
