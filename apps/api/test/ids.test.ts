import { toWireId, type WirePrefix } from '@nightshift/agent-core';
import { describe, expect, test } from 'vitest';
import { fc } from '../../../test/fast-check.ts';
import { wireId } from '../src/schemas/ids.ts';

const uuid = fc.uuid({ version: [4, 7] });
const prefix = fc.constantFrom<WirePrefix>(
  'agent',
  'block',
  'tool',
  'message',
  'run',
  'step',
  'job',
  'batch_item',
  'conversation',
  'user',
);

describe('ids on the wire', () => {
  test('an id is read under its own prefix only', () => {
    fc.assert(
      fc.property(prefix, prefix, uuid, (own, other, id) => {
        expect(wireId(own).parse(toWireId(own, id))).toBe(id);
        if (other !== own) expect(wireId(other).safeParse(toWireId(own, id)).success).toBe(false);
      }),
    );
  });

  test.each([
    ['no prefix', '019a1b2c-0000-7000-8000-000000000000'],
    ['another prefix', 'run-019a1b2c-0000-7000-8000-000000000000'],
    ['upper case', 'agent-019A1B2C-0000-7000-8000-000000000000'],
    ['no dashes', 'agent-019a1b2c000070008000000000000000'],
    ['a digit missing', 'agent-019a1b2c-0000-7000-8000-00000000000'],
    ['a suffix', 'agent-019a1b2c-0000-7000-8000-000000000000\n'],
    ['an unknown version', 'agent-019a1b2c-0000-9000-8000-000000000000'],
    ['an unknown variant', 'agent-019a1b2c-0000-7000-c000-000000000000'],
    ['the nil uuid', 'agent-00000000-0000-0000-0000-000000000000'],
    ['an empty id', 'agent-'],
    ['nothing', ''],
  ])('a text with %s is not an agent id', (_what, text) => {
    expect(wireId('agent').safeParse(text).success).toBe(false);
  });
});
