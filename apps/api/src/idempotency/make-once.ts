import { NightshiftError, type JsonObject } from '@nightshift/agent-core';
import {
  findIdempotentRequest,
  inTransaction,
  lockIdempotencyKey,
  storeIdempotencyKey,
  type Database,
  type Tx,
} from '@nightshift/db';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../context.ts';
import { hashOf, KEY_MAX_AGE_MINUTES, keyIsUsed, keyOf } from './key.ts';

/** How a route makes or changes something. */
export interface Maker<Prepared, Made extends JsonObject, Answer> {
  /** Checks the request, outside the transaction. Not called for a repeated request. */
  prepare(): Prepared | Promise<Prepared>;
  /** Makes it, and returns what identifies it, or a report; this is stored with the key, so it holds no texts. */
  make(trx: Tx, prepared: Prepared): Promise<Made>;
  /** Reads the answer. Throws: `not_found` if it was deleted. */
  show(made: Made): Answer | Promise<Answer>;
}

/**
 * Makes or changes something, unless an earlier request with the same `Idempotency-Key` has done so in the last day. The key is
 * stored in the same transaction. A repeated request gets the present state of what was made, or the report of the first.
 * Throws: `idempotency_mismatch` for another request with the key; `not_found` if what was made is deleted; what `maker` throws.
 * Locks: the key first, so that simultaneous requests wait for each other.
 */
export async function makeOnce<Prepared, Made extends JsonObject, Answer>(
  { db, projectId }: Pick<Context, 'db' | 'projectId'>,
  request: FastifyRequest,
  reply: FastifyReply,
  maker: Maker<Prepared, Made, Answer>,
  request_sha256 = hashOf(request),
): Promise<Answer> {
  const key = keyOf(request);
  if (key === null) {
    const prepared = await maker.prepare();
    return maker.show(await inTransaction(db, (trx) => maker.make(trx, prepared)));
  }
  const find = (on: Database) => findMade<Made>(on, projectId, key, request_sha256);
  const replay = (made: Made): Promise<Answer> => {
    void reply.header('idempotent-replayed', 'true');
    return showAgain(maker, made);
  };
  const earlier = await find(db);
  if (earlier !== null) return replay(earlier);
  const prepared = await maker.prepare();
  const { made, isNew } = await inTransaction(db, async (trx) => {
    await lockIdempotencyKey(trx, projectId, key);
    const other = await find(trx);
    if (other !== null) return { made: other, isNew: false };
    const made = await maker.make(trx, prepared);
    await storeIdempotencyKey(trx, projectId, { key, request_sha256, made });
    return { made, isNew: true };
  });
  return isNew ? maker.show(made) : replay(made);
}

async function findMade<Made extends JsonObject>(
  db: Database,
  projectId: string,
  key: string,
  request_sha256: string,
): Promise<Made | null> {
  const found = await findIdempotentRequest(db, projectId, key, KEY_MAX_AGE_MINUTES);
  if (found === null) return null;
  if (found.made === null || found.request_sha256 !== request_sha256) throw keyIsUsed();
  return found.made as Made;
}

async function showAgain<Made extends JsonObject, Answer>(
  { show }: Pick<Maker<never, Made, Answer>, 'show'>,
  made: Made,
): Promise<Answer> {
  try {
    return await show(made);
  } catch (error) {
    if (!(error instanceof NightshiftError) || error.code !== 'not_found') throw error;
    const message = `What this Idempotency-Key has made was deleted: ${error.message} Send a new key.`;
    throw new NightshiftError('not_found', message);
  }
}
