import { inspect } from 'node:util';
import { NightshiftError } from '@nightshift/agent-core';
import { expect, test } from 'vitest';
import { openSecrets, readSecretsKeys, sealSecret, type SecretPlace } from '../../src/index.ts';

const FIRST = Buffer.alloc(32, 1).toString('base64');
const SECOND = '02'.repeat(32);
const keys = readSecretsKeys(FIRST, undefined);

const PROJECT = '01900000-0000-7000-8000-000000000000';
const ANN = '01900000-0000-7000-8000-00000000000a';
const BOB = '01900000-0000-7000-8000-00000000000b';
const place = (name: string, agent_id: string | null = null): SecretPlace => ({
  project_id: PROJECT,
  agent_id,
  name,
});

/** Returns the code of an error of the catalogue. */
function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof NightshiftError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'no error';
}

test.each([
  ['a character', 'x'],
  ['other letters', 'Grüße, 世界 🌙'],
  ['lines', 'line\nline\n'],
  ['the longest text', 'x'.repeat(65_536)],
])('a sealed value opens: %s', (_, value) => {
  const sealed = sealSecret(place('TOKEN'), value, keys);
  expect(sealed.ciphertext.length).toBe(Buffer.byteLength(value) + 16);
  expect(openSecrets([sealed], keys)(ANN, ['TOKEN'])).toEqual(new Map([['TOKEN', value]]));
});

test('a sealed value cannot be read in its row', () => {
  const sealed = sealSecret(place('TOKEN'), 'a value of many letters', keys);
  expect(sealed.ciphertext.toString('latin1')).not.toContain('value');
});

test('two seals of a value differ', () => {
  const [one, other] = [1, 2].map(() => sealSecret(place('TOKEN'), 'same', keys));
  expect(one!.nonce.equals(other!.nonce)).toBe(false);
  expect(one!.ciphertext.equals(other!.ciphertext)).toBe(false);
});

test.each([
  ['another name', { name: 'OTHER' }],
  ['another agent', { agent_id: BOB }],
  ['the project', { agent_id: null }],
  ['another project', { project_id: BOB }],
] as const)('a sealed value cannot be moved to %s', (_, change) => {
  const moved = { ...sealSecret(place('TOKEN', ANN), 'value', keys), ...change };
  const open = openSecrets([moved], keys);
  expect(codeOf(() => open(moved.agent_id ?? ANN, [moved.name]))).toMatch(/^secret_damaged: The secret/);
});

test.each([
  ['the nonce', { nonce: Buffer.alloc(12) }],
  ['the ciphertext', { ciphertext: Buffer.alloc(21) }],
  ['its length', { ciphertext: Buffer.alloc(3) }],
])('a row with a change of %s does not open', (_, change) => {
  const sealed = { ...sealSecret(place('TOKEN'), 'value', keys), ...change };
  expect(codeOf(() => openSecrets([sealed], keys)(ANN, ['TOKEN']))).toBe(
    'secret_damaged: The secret TOKEN cannot be decrypted.',
  );
});

test('without the key of a row the error names the id of the key; an old key opens it', () => {
  const sealed = sealSecret(place('TOKEN'), 'value', keys);
  const open = openSecrets([sealed], readSecretsKeys(SECOND, undefined));
  expect(codeOf(() => open(ANN, ['TOKEN']))).toMatch(
    new RegExp(`^secrets_key_missing: .* ${keys.current!.id}: add it to SECRETS_KEYS_OLD`),
  );
  expect(openSecrets([sealed], readSecretsKeys(SECOND, `${SECOND},${FIRST}`))(ANN, ['TOKEN'])).toEqual(
    new Map([['TOKEN', 'value']]),
  );
});

test('a wrong key under the id of the right one does not open', () => {
  const sealed = sealSecret(place('TOKEN'), 'value', keys);
  const wrong = readSecretsKeys(SECOND, undefined);
  const posing = { current: { ...wrong.current!, id: keys.current!.id }, old: [] };
  expect(codeOf(() => openSecrets([sealed], posing)(ANN, ['TOKEN']))).toMatch(/^secret_damaged/);
});

test('nothing is sealed without a current key', () => {
  expect(codeOf(() => sealSecret(place('TOKEN'), 'value', readSecretsKeys(undefined, FIRST)))).toMatch(
    /^secrets_key_missing: .*SECRETS_KEY/,
  );
});

test("an agent's secret takes precedence over the project's; other agents keep the project's", () => {
  const open = openSecrets(
    [
      sealSecret(place('TOKEN'), 'of the project', keys),
      sealSecret(place('TOKEN', ANN), 'of Ann', keys),
      sealSecret(place('OWN', BOB), 'of Bob', keys),
      sealSecret(place('__proto__'), 'a name as any other', keys),
    ],
    keys,
  );
  const names = ['TOKEN', 'OWN', '__proto__', 'constructor'];
  expect([...open(ANN, names)]).toEqual([
    ['TOKEN', 'of Ann'],
    ['__proto__', 'a name as any other'],
  ]);
  expect([...open(BOB, names)]).toEqual([
    ['TOKEN', 'of the project'],
    ['OWN', 'of Bob'],
    ['__proto__', 'a name as any other'],
  ]);
});

test('a damaged secret fails only the calls that need it', () => {
  const good = sealSecret(place('GOOD'), 'value', keys);
  const open = openSecrets([good, { ...good, name: 'BAD' }], keys);
  expect(open(ANN, ['GOOD'])).toEqual(new Map([['GOOD', 'value']]));
  expect(codeOf(() => open(ANN, ['GOOD', 'BAD']))).toMatch(/^secret_damaged: The secret BAD/);
});

test('a key is read in base64 and hex, and shown by no log', () => {
  const [padded, bare, hex] = [FIRST, FIRST.slice(0, -1), '01'.repeat(32)].map((text) =>
    readSecretsKeys(text, undefined),
  );
  expect(bare).toEqual(padded);
  expect(hex!.current!.id).toBe(padded!.current!.id);
  expect(`${JSON.stringify(padded)} ${inspect(padded, { depth: 9, showHidden: true })}`).not.toMatch(
    /01 01|0101|AQEB/,
  );
});
