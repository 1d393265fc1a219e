import { NightshiftError } from '@nightshift/agent-core';
import {
  inTransaction,
  lockSecretsToRotate,
  readSecretKeyIds,
  resealSecrets,
  type Database,
} from '@nightshift/db';
import { keyMissing, openSecret, sealSecret } from './seal.ts';
import type { SecretsKeys } from './keys.ts';

/** Secrets of a transaction; together at most 13 MB. */
const PORTION = 200;

export interface RotateOptions {
  /** Default: {@link PORTION}. */
  readonly portion?: number;
  /** Called after each transaction, with the number of secrets so far. */
  readonly onPortion?: (rotated: number) => void;
}

/**
 * Encrypts all secrets of other keys with the current key, in transactions of their own, and returns their number. After an
 * interruption the next call does the rest.
 * Throws: `secrets_key_missing` before any change, if a key is missing; `secret_damaged`.
 */
export async function rotateSecrets(
  db: Database,
  keys: SecretsKeys,
  { portion = PORTION, onPortion }: RotateOptions = {},
): Promise<number> {
  const { current } = keys;
  if (current === null) throw new NightshiftError('secrets_key_missing', 'Set SECRETS_KEY to the new key.');
  const known = new Set([current, ...keys.old].map(({ id }) => id));
  const unknown = (await readSecretKeyIds(db)).filter((id) => !known.has(id));
  if (unknown.length > 0) throw keyMissing(unknown);
  let rotated = 0;
  for (;;) {
    const count = await inTransaction(db, async (trx) => {
      const rows = await lockSecretsToRotate(trx, current.id, portion);
      await resealSecrets(
        trx,
        rows.map((row) => sealSecret(row, openSecret(row, keys), keys)),
      );
      return rows.length;
    });
    if (count === 0) return rotated;
    rotated += count;
    onPortion?.(rotated);
  }
}
