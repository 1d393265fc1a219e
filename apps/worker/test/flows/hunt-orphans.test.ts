import type {} from '../../../../test/global-setup.ts';
import { toCustomId } from '@nightshift/agent-core';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { huntOrphans } from '../../src/flows/hunt-orphans/hunt-orphans.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ProviderPort, ResultsOutcome } from '../../src/provider/port.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const RUNS = 3;

interface Settled {
  readonly nonce: string;
  readonly of: string;
  /** The custom id of its first request. */
  readonly custom_id: string;
  /** The provider's id of its unlisted batch. */
  readonly hidden: string;
}

/**
 * Gives up a submission whose batch was never listed; its steps are sent again. From here on the list shows it. `latency`:
 * the provider's processing time.
 */
async function giveUp(worker: FlowDeps, latency = 'fixed:0'): Promise<Settled> {
  const { control } = house.simulator;
  control.configure({ latency });
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const hiding = control.addRule({ op: 'list', action: { type: 'omit' } });
  const { run_ids } = await house.submit(Array.from({ length: RUNS }, (_, at) => ({ input: `text ${at}` })));
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  for (const outcome of ['not found yet', 'withdrawn']) {
    await house.hasten();
    expect(await reconcileSubmission(worker)).toMatchObject({ outcome });
  }
  control.removeRule(hiding);
  const [row] = await house.rows<Pick<Settled, 'nonce' | 'of'>>(
    'select nonce, provider_batch_id as of from doubted_submission',
  );
  const { nonce = '', of = '' } = row ?? {};
  const key = { run_id: run_ids[0] ?? '', number: 1, attempt: 1 };
  return { nonce, of, custom_id: toCustomId(nonce, key), hidden: control.batches()[0]?.id ?? '' };
}

const orphans = () =>
  house.rows(
    `select provider_id, request_count, error as detail from provider_batch where state = 'orphan_paid'`,
  );
const requestsTo = (op: string): number =>
  house.simulator.control.journal(0, 10_000).entries.filter((entry) => entry.op === op).length;

const lineOf = (custom_id: string): string =>
  `${JSON.stringify({ custom_id, result: { type: 'expired' } })}\n`;
const THEIRS = lineOf(`abcdef-${'0'.repeat(12)}40008${'0'.repeat(15)}-1`);

/** Builds a result file of these pieces, with an optional break at its end. */
function fileOf(pieces: readonly string[], breaks = false): ResultsOutcome {
  const chunks = (async function* () {
    for (const piece of pieces) yield await Promise.resolve(Buffer.from(piece));
    if (breaks) throw new Error('broken off');
  })();
  return { outcome: 'open', chunks };
}

/** A worker that gets other result files than the provider's, and the count of its downloads. */
function reading(
  worker: FlowDeps,
  file: () => ResultsOutcome,
): { readonly worker: FlowDeps; readonly asked: Parameters<ProviderPort['streamResults']>[] } {
  const asked: Parameters<ProviderPort['streamResults']>[] = [];
  const streamResults: ProviderPort['streamResults'] = (...args) => {
    asked.push(args);
    return Promise.resolve(file());
  };
  return { worker: { ...worker, provider: { ...worker.provider, streamResults } }, asked };
}

describe('an ended batch of the size of a submission that was given up', () => {
  test.each<[string, (id: string) => readonly string[]]>([
    ['its first line', (id) => [lineOf(id)]],
    ['its second line, in one chunk with the first', (id) => [THEIRS + lineOf(id)]],
    ['its twentieth line', (id) => [THEIRS.repeat(19), lineOf(id)]],
    ['the head of a line too long to be held', (id) => [`${lineOf(id).trim()}${' '.repeat(500)}x\n`]],
  ])('is booked as paid and ours, once, by the nonce in %s', async (_where, pieces) => {
    const honest = house.worker({ settings: { line_bytes_max: 300 } });
    const { nonce, of, custom_id, hidden } = await giveUp(honest);
    const { worker } = reading(honest, () => fileOf(pieces(custom_id)));
    const clock_offset_ms = expect.any(Number) as number;
    const report = { worked: false, watched: 1, booked: 1, alarm: true, clock_offset_ms };
    expect(await huntOrphans(worker)).toMatchObject(report);
    const detail = { reason: expect.any(String) as string, of, nonce, proven: true };
    expect(await orphans()).toEqual([{ provider_id: hidden, request_count: RUNS, detail }]);
    expect(await huntOrphans(worker)).toMatchObject({ suspected: 0, booked: 0 });
    expect(await orphans()).toHaveLength(1);
  });

  test.each<[string, (id: string) => readonly string[]]>([
    ['bear no nonce of a watched submission', () => [THEIRS]],
    ['have no id of ours', () => ['{"custom_id":"theirs-1"}\n{"no":"id"}\nno JSON\n']],
    ['are twenty foreign lines', (id) => [THEIRS.repeat(20), lineOf(id)]],
  ])('is foreign if its first lines %s, and is read three times at most', async (_why, pieces) => {
    const honest = house.worker();
    const { custom_id } = await giveUp(honest);
    const { worker, asked } = reading(honest, () => fileOf(pieces(custom_id)));
    for (let hunt = 0; hunt < 5; hunt++) {
      const report = await huntOrphans(worker);
      expect(report).toMatchObject({ suspected: 1, booked: 0 });
      for (const told of ['alarm', 'warning', 'reason', 'corrected']) expect(report).not.toHaveProperty(told);
    }
    expect(asked).toHaveLength(3);
    expect(await orphans()).toEqual([]);
  });

  test.each<[string, () => ResultsOutcome]>([
    ['is not there yet', () => ({ outcome: 'not_ready' })],
    ['is empty', () => fileOf([])],
    ['breaks off', () => fileOf([THEIRS], true)],
  ])('is looked at until it shows a line, while its file %s', async (_why, file) => {
    const honest = house.worker();
    const { hidden } = await giveUp(honest);
    const { worker, asked } = reading(honest, file);
    for (let hunt = 0; hunt < 4; hunt++) expect(await huntOrphans(worker)).toMatchObject({ booked: 0 });
    expect(asked).toHaveLength(4);
    expect(await huntOrphans(honest)).toMatchObject({ booked: 1, alarm: true });
    expect(await orphans()).toMatchObject([{ provider_id: hidden }]);
  });

  test('is not counted again if another hunt has booked it meanwhile', async () => {
    const honest = house.worker();
    const { custom_id } = await giveUp(honest);
    const rung: unknown[] = [];
    const worker: FlowDeps = {
      ...honest,
      bell: {
        ring: (signals) => {
          rung.push(...signals);
          return Promise.resolve();
        },
      },
      provider: {
        ...honest.provider,
        async streamResults() {
          expect(await huntOrphans(honest)).toMatchObject({ booked: 1 });
          return fileOf([lineOf(custom_id)]);
        },
      },
    };
    const report = await huntOrphans(worker);
    expect(report).toMatchObject({ suspected: 1, booked: 0 });
    expect(report).not.toHaveProperty('corrected');
    expect([rung, (await orphans()).length]).toEqual([[], 1]);
  });

  test('is listed although a younger submission is watched too', async () => {
    const worker = house.worker();
    await giveUp(worker);
    await house.rows(`
      insert into doubted_submission (nonce, project_id, provider_batch_id, outcome, request_count,
                                      submit_started_at, watched_until, provider_sent_at)
      select 'younger0', project_id, provider_batch_id, outcome, request_count,
             submit_started_at + interval '2 hours', watched_until, provider_sent_at + interval '2 hours'
        from doubted_submission`);
    expect(await huntOrphans(worker)).toMatchObject({ watched: 2, booked: 1 });
  });
});

test('a hunt reads at most fifty files, each with a timeout, and reaches the others once these are foreign', async () => {
  const honest = house.worker();
  await giveUp(honest);
  const { worker: reader, asked } = reading(honest, () => fileOf([THEIRS]));
  const listBatches: ProviderPort['listBatches'] = async (options) => {
    const list = await honest.provider.listBatches(options);
    const batches = list.batches.flatMap((batch) =>
      Array.from({ length: 51 }, (_, at) => ({ ...batch, provider_id: `msgbatch_their_${at}` })),
    );
    return { ...list, batches };
  };
  const worker = { ...reader, provider: { ...reader.provider, listBatches } };
  for (let hunt = 0; hunt < 3; hunt++) expect(await huntOrphans(worker)).toMatchObject({ suspected: 51 });
  expect(asked).toHaveLength(150);
  await huntOrphans(worker);
  expect(asked.slice(150).map(([id]) => id)).toEqual(['msgbatch_their_50']);
  expect(asked[0]?.[1]).toEqual({ idleTimeoutMs: 5_000, signal: expect.any(AbortSignal) as AbortSignal });
});

test.each([
  ['of our own', 'is cancelled and booked on sight, not as proven', true],
  ['that is shared', 'is left alone: it may be foreign', false],
])('in a workspace %s a running batch that looks like a second one %s', async (_whose, _what, isOurs) => {
  const worker = house.worker({ settings: { workspace_is_ours: isOurs } });
  const { nonce, of, hidden } = await giveUp(worker, 'fixed:10000000');
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 1, booked: isOurs ? 1 : 0 });
  const detail = { reason: expect.any(String) as string, of, nonce, proven: false };
  expect(await orphans()).toEqual(isOurs ? [{ provider_id: hidden, request_count: RUNS, detail }] : []);
  expect(requestsTo('cancel')).toBe(isOurs ? 1 : 0);
  // The second send is booked already, and goes on.
  expect(house.simulator.control.batches().map(({ status }) => status)).toEqual([
    isOurs ? 'canceling' : 'in_progress',
    'in_progress',
  ]);
});

test('a second batch is not booked before the provider took its cancel, and the reason is reported', async () => {
  const worker = house.worker();
  const { hidden } = await giveUp(worker, 'fixed:10000000');
  await submitProviderBatch(worker);
  house.simulator.control.addRule({
    op: 'cancel',
    match: { times: 1 },
    action: { type: 'status', code: 529 },
  });
  const reason = expect.stringMatching(/^HTTP 529: /) as string;
  const unheard = await huntOrphans(worker);
  expect(unheard).toMatchObject({ suspected: 1, booked: 0, reason, warning: true });
  expect(unheard).not.toHaveProperty('alarm');
  expect(await orphans()).toEqual([]);
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 1, booked: 1, alarm: true });
  expect(await orphans()).toMatchObject([{ provider_id: hidden }]);
});

test('a batch that a submission in doubt may own is never cancelled as a second batch', async () => {
  const { control } = house.simulator;
  const worker = house.worker();
  await giveUp(worker, 'fixed:10000000');
  control.addRule({ op: 'create', match: { times: 1 }, action: { type: 'commitThenDrop' } });
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 2, booked: 0 });
  expect(requestsTo('cancel')).toBe(0);
  expect(control.batches().map(({ status }) => status)).toEqual(['in_progress', 'in_progress']);
  expect(await orphans()).toEqual([]);
});

test('without a submission in doubt no list is requested, and the provider’s clock is measured', async () => {
  const worker = house.worker();
  expect(await huntOrphans(worker)).toEqual({ flow: 'hunt-orphans', worked: false });
  expect(requestsTo('list')).toBe(0);
  await worker.provider.clock.refresh();
  expect(await huntOrphans(worker)).toMatchObject({ clock_offset_ms: expect.any(Number) as number });
});
