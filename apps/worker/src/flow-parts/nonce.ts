import { randomBytes } from 'node:crypto';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';

/** Creates the nonce of a submission for every custom_id: ten characters, fifty random bits. */
export function newNonce(): string {
  return Array.from(randomBytes(10), (byte) => ALPHABET[byte & 31]).join('');
}
