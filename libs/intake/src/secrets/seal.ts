import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import type { SealedSecret } from '@nightshift/db';
import type { SecretsKeys } from './keys.ts';

const CIPHER = 'aes-256-gcm';
/** The usual nonce of GCM; random ones are safe for 2^32 seals of a key. Unit: bytes. */
const NONCE_BYTES = 12;
/** The authentication tag, which follows the ciphertext. Unit: bytes. */
const TAG_BYTES = 16;

/** The owner and name of a secret, to which its value is bound. */
export type SecretPlace = Pick<SealedSecret, 'project_id' | 'agent_id' | 'name'>;

/** Encrypts a value for its place with the current key. Throws: `secrets_key_missing` without one. */
export function sealSecret(
  { project_id, agent_id, name }: SecretPlace,
  value: string,
  { current }: SecretsKeys,
): SealedSecret {
  if (current === null) {
    throw new NightshiftError(
      'secrets_key_missing',
      'Secrets cannot be stored: this server has no SECRETS_KEY. Set it for the API and all workers.',
    );
  }
  const place = { project_id, agent_id, name };
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, current.key, nonce).setAAD(bindingOf(place));
  const ciphertext = Buffer.concat([cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return { ...place, key_id: current.id, nonce, ciphertext };
}

/**
 * Decrypts a value.
 * Throws: `secrets_key_missing` with the id of the key; `secret_damaged` for a row that was altered or is of another place.
 */
export function openSecret(secret: SealedSecret, { current, old }: SecretsKeys): string {
  const { key_id, nonce, ciphertext } = secret;
  const key = [current, ...old].find((each) => each?.id === key_id);
  if (key == null) throw keyMissing([key_id]);
  const end = ciphertext.length - TAG_BYTES;
  try {
    const decipher = createDecipheriv(CIPHER, key.key, nonce, { authTagLength: TAG_BYTES })
      .setAAD(bindingOf(secret))
      .setAuthTag(ciphertext.subarray(end));
    return Buffer.concat([decipher.update(ciphertext.subarray(0, end)), decipher.final()]).toString();
  } catch (cause) {
    const of = secret.agent_id === null ? '' : ` of agent-${secret.agent_id}`;
    throw new NightshiftError('secret_damaged', `The secret ${secret.name}${of} cannot be decrypted.`, {
      cause,
    });
  }
}

/** The error of sealed secrets whose keys this process does not have. */
export function keyMissing(keyIds: readonly string[]): NightshiftError {
  return new NightshiftError(
    'secrets_key_missing',
    `This process has no secrets key with the id ${keyIds.join(', ')}: add it to SECRETS_KEYS_OLD.`,
  );
}

/** Returns the secrets of an agent with these names. A name without a value is absent. */
export type OpenSecrets = (agentId: string, names: readonly string[]) => ReadonlyMap<string, string>;

/**
 * Indexes rows of `readSecretsFor`, and returns a function that decrypts those of an agent when they are asked for. An agent's
 * own secret takes precedence over the project's of the same name.
 * The function throws what {@link openSecret} throws, so that a bad row fails only the calls that need it.
 */
export function openSecrets(rows: readonly SealedSecret[], keys: SecretsKeys): OpenSecrets {
  const byPlace = new Map(rows.map((row) => [placeKey(row.agent_id, row.name), row]));
  return (agentId, names) =>
    new Map(
      names.flatMap((name) => {
        const row = byPlace.get(placeKey(agentId, name)) ?? byPlace.get(placeKey(null, name));
        return row === undefined ? [] : [[name, openSecret(row, keys)]];
      }),
    );
}

function placeKey(agentId: string | null, name: string): string {
  return `${agentId ?? ''}/${name}`;
}

/** The additional data, by which a ciphertext cannot be moved to another place. */
function bindingOf({ project_id, agent_id, name }: SecretPlace): Buffer {
  return Buffer.from(JSON.stringify([project_id, agent_id, name]));
}
