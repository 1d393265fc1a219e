import { createHash, createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import { join } from 'node:path';
import { keepKeyFile, type KeptKey } from '@nightshift/services';

const KEY = '(?:[0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=?)';
/** The form of SECRETS_KEY. */
export const SECRETS_KEY_FORM = new RegExp(`^${KEY}$`);
/** The form of SECRETS_KEYS_OLD. */
export const SECRETS_KEYS_FORM = new RegExp(`^${KEY}(?:,${KEY})*$`);
/** The rule of both, for a refusal. */
export const SECRETS_KEY_RULE = 'must be 32 bytes in base64 or hex; openssl rand -base64 32 makes a key';
export const SECRETS_KEYS_RULE = 'must be keys of 32 bytes in base64 or hex, separated by commas';

/** A key of AES-256. A log or error that shows it has no bytes of it. */
export interface SecretsKey {
  /** The first 16 hex digits of the SHA-256 of the key. */
  readonly id: string;
  readonly key: KeyObject;
}

/** The keys of a process. */
export interface SecretsKeys {
  /** Seals secrets. Null: nothing can be sealed. */
  readonly current: SecretsKey | null;
  /** Open secrets only. */
  readonly old: readonly SecretsKey[];
}

/** The keys of a process without any. */
export const NO_SECRETS_KEYS: SecretsKeys = { current: null, old: [] };

/** Reads SECRETS_KEY and SECRETS_KEYS_OLD, whose forms are checked. */
export function readSecretsKeys(current: string | undefined, old: string | undefined): SecretsKeys {
  return {
    current: current === undefined ? null : toKey(current),
    old: old === undefined ? [] : old.split(',').map(toKey),
  };
}

function toKey(text: string): SecretsKey {
  const bytes = Buffer.from(text, text.length === 64 ? 'hex' : 'base64');
  const id = createHash('sha256').update(bytes).digest('hex').slice(0, 16);
  return { id, key: createSecretKey(bytes) };
}

/** Reads SECRETS_KEY in `<dataDir>/secrets-key`, or creates it, readable by its owner only. */
export function keepSecretsKey(dataDir: string): Promise<KeptKey> {
  return keepKeyFile({
    path: join(dataDir, 'secrets-key'),
    make: () => randomBytes(32).toString('base64'),
    isKey: (text) => SECRETS_KEY_FORM.test(text),
    refusal: 'holds no key of 32 bytes in base64 or hex: restore it, because stored secrets need it.',
  });
}
