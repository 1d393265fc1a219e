import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  ATTEMPT_MAX,
  clearLowBits,
  CONVERSATION_FREE_BITS,
  fromCustomId,
  MESSAGE_SEQ_MAX,
  messageKeyOf,
  messageUuid,
  RUN_FREE_BITS,
  STEP_NUMBER_MAX,
  stepKeyOf,
  stepUuid,
  toCustomId,
} from '../../src/base/ids.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const uuid = fc.uuid({ version: [4, 7] });
const runId = uuid.map((id) => clearLowBits(id, RUN_FREE_BITS));
const conversationId = uuid.map((id) => clearLowBits(id, CONVERSATION_FREE_BITS));
const stepKey = fc.record({
  run_id: runId,
  number: fc.integer({ min: 1, max: STEP_NUMBER_MAX }),
  attempt: fc.integer({ min: 0, max: ATTEMPT_MAX }),
});
const nonce = fc.stringMatching(/^[a-z0-9]{6,16}$/);

describe('numbers in the low bits of a uuid', () => {
  test('clearing zeroes exactly that many bits of a uuid', () => {
    fc.assert(
      fc.property(uuid, fc.integer({ min: 0, max: 32 }), (id, bits) => {
        const cleared = clearLowBits(id, bits);
        const value = (text: string): bigint => BigInt(`0x${text.replaceAll('-', '')}`);
        expect(cleared).toMatch(UUID);
        expect(value(cleared)).toBe((value(id) >> BigInt(bits)) << BigInt(bits));
      }),
    );
  });

  test('a step is read back from its uuid', () => {
    fc.assert(
      fc.property(stepKey, (key) => {
        expect(stepUuid(key)).toMatch(UUID);
        expect(stepKeyOf(stepUuid(key))).toEqual(key);
      }),
    );
  });

  test('a message is read back from the uuid of any of its items', () => {
    fc.assert(
      fc.property(
        conversationId,
        fc.integer({ min: 0, max: MESSAGE_SEQ_MAX }),
        fc.integer({ min: 0, max: 127 }),
        (conversation_id, seq, item) => {
          const id = messageUuid(conversation_id, seq, item);
          expect(id).toMatch(UUID);
          expect(messageKeyOf(id)).toEqual({ conversation_id, seq });
        },
      ),
    );
  });

  test('the largest numbers fill the free bits and leave the parent alone', () => {
    const parent = clearLowBits('019a1b2c-3d4e-7f60-8a1b-ffffffffffff', RUN_FREE_BITS);
    expect(parent).toBe('019a1b2c-3d4e-7f60-8a1b-ffffff000000');
    expect(stepUuid({ run_id: parent, number: STEP_NUMBER_MAX, attempt: ATTEMPT_MAX })).toBe(
      '019a1b2c-3d4e-7f60-8a1b-ffffffffffff',
    );
    const conversation = clearLowBits('019a1b2c-3d4e-7f60-8a1b-ffffffffffff', CONVERSATION_FREE_BITS);
    expect(conversation).toBe('019a1b2c-3d4e-7f60-8a1b-ffff80000000');
    expect(messageUuid(conversation, MESSAGE_SEQ_MAX, 127)).toBe('019a1b2c-3d4e-7f60-8a1b-ffffffffffff');
    expect(messageUuid(conversation, 1)).toBe('019a1b2c-3d4e-7f60-8a1b-ffff80000080');
  });

  test('two steps or two messages never share a uuid', () => {
    fc.assert(
      fc.property(stepKey, stepKey, (a, b) => {
        const same = a.run_id === b.run_id && a.number === b.number && a.attempt === b.attempt;
        expect(stepUuid(a) === stepUuid(b)).toBe(same);
      }),
    );
  });
});

describe('custom_id', () => {
  test('is read back, and is valid for the provider', () => {
    fc.assert(
      fc.property(nonce, stepKey, (own, key) => {
        const customId = toCustomId(own, key);
        expect(customId).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
        expect(fromCustomId(customId)).toEqual({ nonce: own, key });
      }),
    );
  });

  test('is 53 characters at most', () => {
    const run_id = 'ffffffff-ffff-7fff-bfff-ffffff000000';
    expect(
      toCustomId('z'.repeat(16), { run_id, number: STEP_NUMBER_MAX, attempt: ATTEMPT_MAX }),
    ).toHaveLength(53);
  });

  test('names the step, the attempt and its submission', () => {
    const key = { run_id: '019a1b2c-3d4e-7f60-8a1b-2c3d4e000000', number: 258, attempt: 7 };
    expect(toCustomId('abc123', key)).toBe('abc123-019a1b2c3d4e7f608a1b2c3d4e010200-7');
  });

  const hex = '019a1b2c3d4e7f608a1b2c3d4e000100';
  test.each([
    ['is empty', ''],
    ['is not ours', 'request-1'],
    ['has a short nonce', `abc12-${hex}-1`],
    ['has a long nonce', `${'a'.repeat(17)}-${hex}-1`],
    ['has an upper-case nonce', `ABC123-${hex}-1`],
    ['has no attempt', `abc123-${hex}`],
    ['has an attempt of four digits', `abc123-${hex}-1000`],
    ['has an attempt beyond a byte', `abc123-${hex}-256`],
    ['has an attempt with a leading zero', `abc123-${hex}-01`],
    ['carries the attempt twice', 'abc123-019a1b2c3d4e7f608a1b2c3d4e000101-1'],
    ['holds no uuid', 'abc123-019a1b2c3d4e0f608a1b2c3d4e000100-1'],
    ['has a line end behind it', `abc123-${hex}-1\n`],
  ])('an id that %s is not ours', (_what, customId) => {
    expect(fromCustomId(customId)).toBeNull();
  });

  test('two different ids never name the same step attempt', () => {
    const near = fc.stringMatching(/^abc123-019a1b2c3d4e7f608a1b2c3d4e00[0-9a-f]{4}-[0-9]{1,3}$/);
    fc.assert(
      fc.property(near, (customId) => {
        const read = fromCustomId(customId);
        if (read !== null) expect(toCustomId(read.nonce, read.key)).toBe(customId);
      }),
    );
  });
});
