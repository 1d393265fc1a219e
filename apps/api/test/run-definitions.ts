import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { claimDueBatches, inTransaction } from '@nightshift/db';
import { acceptPortion } from '@nightshift/intake';
import { API_KEY, type TestApi } from './api.ts';

interface MadeBatch {
  readonly status: number;
  readonly body: { readonly id: string };
}

/** Uploads a batch as lines. */
export async function uploadLines({ app }: TestApi, lines: readonly object[]) {
  const answer = await app.inject({
    method: 'POST',
    url: '/v1/batches',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl' },
    payload: lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  });
  return { status: answer.statusCode, body: answer.json() };
}

/** Makes the runs of receiving batches. */
async function makeRuns({ database: { db } }: TestApi): Promise<void> {
  const claimant = { owner: 'test', lease_duration_ms: 60_000 };
  const settings = { prices: SHIPPED_PRICES, agents_per_portion: 500 };
  for (const { id, lease_epoch: epoch } of await claimDueBatches(db, ['receiving'], 100, claimant)) {
    let kind = 'portion';
    while (kind === 'portion')
      ({ kind } = await inTransaction(db, (trx) =>
        acceptPortion(trx, { table: 'batch', id, epoch }, settings),
      ));
  }
}

/** Makes the runs of an accepted batch, and reads a value of each run's definition `d`, in request order. */
export async function definitionsOf<Value>(
  api: TestApi,
  { status, body }: MadeBatch,
  value: string,
): Promise<readonly Value[]> {
  if (status !== 200) throw new Error(`The batch was refused: ${JSON.stringify(body)}`);
  await makeRuns(api);
  const { rows } = await api.database.pool.query<{ value: Value }>(
    `select ${value} as value from run r join definition d on d.id = r.definition_id
      where r.batch_id = $1 order by r.ordinal`,
    [body.id.slice('job-'.length)],
  );
  return rows.map((row) => row.value);
}

/** Returns the status of a refusal and the paths of its fields. */
export const pathsOf = ({
  status,
  body,
}: {
  readonly status: number;
  readonly body: { readonly errors: readonly { readonly path: string }[] };
}) => [status, ...body.errors.map(({ path }) => path)];
