import { recordOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { shownTime } from './moment.ts';

/** Longest value. Unit: bytes of UTF-8. */
const VALUE_BYTES_MAX = 65_536;
/** Most secrets of an agent, and of the project. */
export const SECRETS_MAX = 500;
/** The value of a secret in an answer. In a request it keeps the stored value. */
export const MASK = '********';

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const NAME_RULE =
  'the name must have 1 to 64 letters, digits and underscores, and must not start with a digit';

/** The name of a secret. */
export const secretName = z.string().regex(NAME, NAME_RULE).describe('Letters, digits and `_`.');

/** A value as tools get it, which must be text of every environment variable and header. */
const secretText = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= VALUE_BYTES_MAX, 'must have at most 65,536 bytes of UTF-8')
  .refine((text) => text.isWellFormed(), 'must not hold half of a surrogate pair')
  .refine((text) => !text.includes('\0'), 'must not hold a NUL character')
  .meta({ maxLength: VALUE_BYTES_MAX });

export const secretInput = z
  .strictObject({
    value: secretText.min(1).describe('1 to 65,536 bytes of UTF-8. It is never returned.'),
  })
  .meta({ id: 'SecretPut', examples: [{ value: 'sk-of-a-service' }] });

/** Secrets of an agent: values by name. */
export const agentSecrets = recordOf(secretText, SECRETS_MAX).superRefine((secrets, context) => {
  for (const name of Object.keys(secrets))
    if (!NAME.test(name)) context.addIssue({ code: 'custom', path: [name], message: NAME_RULE });
});

/** The id of a SECRETS_KEY. */
export const secretKeyId = z.string().meta({
  pattern: '^[0-9a-f]{16}$',
  description: 'The first 16 hex digits of the SHA-256 of a SECRETS_KEY.',
});

/** A secret on the wire, without its value. */
export const secretResponse = z
  .object({
    name: z.string(),
    key_id: secretKeyId.describe('The key that has encrypted it.'),
    created_at: shownTime,
    updated_at: shownTime.describe('When its value was stored.'),
  })
  .meta({
    id: 'Secret',
    examples: [
      {
        name: 'ORDERS_TOKEN',
        key_id: '66687aadf862bd77',
        created_at: '2026-11-28T01:00:00.000Z',
        updated_at: '2026-11-28T01:00:00.000Z',
      },
    ],
  });
export type SecretResponse = z.output<typeof secretResponse>;
