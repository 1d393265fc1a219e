/** Helper of tests and proofs. */
import { SHIPPED_PRICES } from '@nightshift/agent-core';
import {
  DEFAULT_PROJECT_ID,
  encodeLines,
  inTransaction,
  newId,
  openUpload,
  readNow,
  stageLines,
  type Database,
} from '@nightshift/db';
import { prepareBatch } from './prepare-batch.ts';
import type {
  BatchOptions,
  BatchRequest,
  RunRequest,
  TemplateInput,
  TemplateRequest,
  ToolsRequest,
} from './request.ts';
import { storeBatch } from './store-batch.ts';
import { toToolChoice } from './to-runs.ts';
import { openLinePlan } from './upload/line-plan.ts';

/** Stores the batch of a body, as the API does, and returns its id. */
export async function storeBody(db: Database, body: BatchRequest): Promise<string> {
  const prepared = await prepareBatch(body, () => undefined);
  return inTransaction(db, async (trx) => {
    const settings = { now: await readNow(trx), prices: SHIPPED_PRICES, idempotency: null };
    return (await storeBatch(trx, DEFAULT_PROJECT_ID, prepared, settings)).batch_id;
  });
}

/** Stages requests, or inputs of a template, and stores their batch as an upload does; returns its id. */
export async function storeLines(
  db: Database,
  requests: readonly (RunRequest | TemplateInput)[],
  {
    template = null,
    tools = null,
    server_tools = null,
    ...options
  }: BatchOptions & ToolsRequest & { readonly template?: TemplateRequest | null } = {},
): Promise<string> {
  const [prices, projectId, batch_id, now] = [SHIPPED_PRICES, DEFAULT_PROJECT_ID, newId(), await readNow(db)];
  const choice = toToolChoice({ tools, server_tools });
  const head = { options, template, tools: choice, path: '', filled_chars_max: 1_000_000 };
  const plan = openLinePlan({ db, projectId, prices, now }, head);
  const { lines, errors, taken } = await plan.plan(
    requests.map((request, index) => ({ line: index + 1, request })),
  );
  if (errors.length > 0) throw new Error(JSON.stringify(errors));
  if (taken < requests.length) throw new Error('The filled templates are too large for a test.');
  await openUpload(db, projectId, batch_id);
  await stageLines(db, [encodeLines({ batch_id, project_id: projectId }, 0, lines)]);
  const { shared } = plan;
  const prepared = { options, batch_id, lines: lines.length, shared, has_capped_runs: plan.hasCappedRuns() };
  const settings = { now, prices, idempotency: null };
  return inTransaction(db, async (trx) => (await storeBatch(trx, projectId, prepared, settings)).batch_id);
}
