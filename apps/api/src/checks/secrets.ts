import { readSecretKeyIds } from '@nightshift/db';
import { judge, listOf, type CheckFunction } from './judged.ts';

/** Checks that the API has the keys of all stored secrets: the workers should have the same. */
export const checkSecrets: CheckFunction<'secrets'> = async ({ read, context: { secretsKeys } }) => {
  const { current, old } = secretsKeys;
  const known = [current, ...old].map((key) => key?.id);
  const used = await read(readSecretKeyIds);
  const missing = used.filter((id) => !known.includes(id));
  return judge<'secrets'>(
    { key_id: current?.id ?? null, missing_key_ids: missing },
    current === null
      ? 'There are no secrets, and no SECRETS_KEY to store some.'
      : 'The API has the keys of all secrets.',
    [
      missing.length > 0 && [
        'failing',
        `Secrets are encrypted with the key ${listOf(missing)}, which the API does not have.`,
        'Add it to SECRETS_KEYS_OLD of the API and all workers and restart them, or store the secrets again.',
      ],
      current === null &&
        used.length > 0 && [
          'warning',
          'The API has only old keys, so no secret can be stored.',
          'Set SECRETS_KEY for the API and all workers, and restart them.',
        ],
    ],
  );
};
