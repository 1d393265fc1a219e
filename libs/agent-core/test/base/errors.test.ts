import { describe, expect, test } from 'vitest';
import { ERROR_CATALOGUE, isError, NightshiftError, type ErrorCode } from '../../src/base/errors.ts';

const entries = Object.entries(ERROR_CATALOGUE);

describe('the catalogue', () => {
  test.each(entries)(
    '%s has a code of the wire, a title and a next step that are sentences',
    (code, entry) => {
      expect(code).toMatch(/^[a-z]+(?:_[a-z]+)*$/);
      expect(entry.title).toMatch(/^[A-Z].*[^.]$/);
      expect(entry.next).toMatch(/^[A-Z].*\.$/);
      if (entry.status !== null) expect(entry.status).toBeGreaterThanOrEqual(400);
      if (entry.status !== null) expect(entry.status).toBeLessThan(600);
    },
  );

  test('no two entries share a title', () => {
    expect(new Set(entries.map(([, { title }]) => title)).size).toBe(entries.length);
  });
});

describe('NightshiftError', () => {
  test('carries its code, its fields and, for the log only, its cause', () => {
    const cause = new Error('connection reset');
    const fields = [{ path: '/requests/0', message: 'is missing' }];
    const error = new NightshiftError('validation_failed', 'One field is wrong.', { fields, cause });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'NightshiftError', code: 'validation_failed', fields, cause });
    expect(error.message).toBe('One field is wrong.');
  });

  test('keeps a hundred fields and their number', () => {
    const fields = Array.from({ length: 120 }, (_, n) => ({ path: `/${n}`, message: 'is wrong' }));
    const error = new NightshiftError('validation_failed', 'Many are wrong.', { fields });
    expect([error.fields.length, error.fields_total]).toEqual([100, 120]);
    const stopped = new NightshiftError('validation_failed', 'Many are wrong.', {
      fields,
      fields_total: null,
    });
    expect([stopped.fields.length, stopped.fields_total]).toEqual([100, null]);
  });

  test('has no fields and no cause unless they are given', () => {
    const error = new NightshiftError('not_found', 'There is no such agent.');
    expect(error.fields).toEqual([]);
    expect('cause' in error).toBe(false);
  });

  test('is told apart by its code', () => {
    const error: unknown = new NightshiftError('fenced', 'The lease is lost.');
    const code: ErrorCode = 'conflict';
    expect(isError(error, 'fenced')).toBe(true);
    expect(isError(error, code)).toBe(false);
    expect(isError(new Error('fenced'), 'fenced')).toBe(false);
    expect(isError({ code: 'fenced' }, 'fenced')).toBe(false);
    expect(isError(null, 'fenced')).toBe(false);
  });
});
