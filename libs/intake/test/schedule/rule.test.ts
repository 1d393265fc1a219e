import { describe, expect, test } from 'vitest';
import { assertRule, describeRule, monthOf, nextTick, nextTicks, ticksUntil } from '../../src/index.ts';
import { changingZones, momentsOf } from './zone-changes.ts';

const CHANGING = changingZones();

const DAY = 24 * 3_600_000;

const ALL = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

describe('around each change of each zone in 2026', () => {
  test('there are zones that change', () => {
    expect(CHANGING.length).toBeGreaterThan(100);
    expect(CHANGING.some(({ time_zone }) => time_zone === 'Australia/Lord_Howe')).toBe(true);
  });

  test.each([
    ['every half hour', '*/30 * * * *', [0, 30], ALL(24), false],
    ['every second hour', '15 */2 * * *', [15], ALL(24).filter((hour) => hour % 2 === 0), false],
    ['within one hour', '*/20 2 * * *', [0, 20, 40], [2], false],
    ['hourly', '5 * * * *', [5], ALL(24), false],
  ] as const)(
    'a rule by elapsed time (%s) keeps to the clock on the wall',
    (_what, cron, minutes, hours, isFixed) => {
      for (const { time_zone, changes } of CHANGING) {
        for (const change of changes) {
          const expected = momentsOf(change, minutes, hours, isFixed);
          const found = nextTicks({ cron, time_zone }, new Date(change.at - DAY), expected.length);
          expect(found.map(Number), `${cron} ${time_zone}`).toEqual(expected);
        }
      }
    },
  );

  test.each([0, 1, 2, 3, 23])(
    'a rule with a fixed time at %i o’clock runs at the end of a gap, and once where the hour comes twice',
    (hour) => {
      for (const minute of [0, 10, 30, 45]) {
        for (const { time_zone, changes } of CHANGING) {
          for (const change of changes) {
            const expected = momentsOf(change, [minute], [hour], true);
            const rule = { cron: `${minute} ${hour} * * *`, time_zone };
            const found = nextTicks(rule, new Date(change.at - DAY), expected.length);
            expect(found.map(Number), `${rule.cron} ${time_zone}`).toEqual(expected);
          }
        }
      }
    },
  );

  test('a list of fixed times is fixed too', () => {
    for (const { time_zone, changes } of CHANGING) {
      for (const change of changes) {
        const expected = momentsOf(change, [0, 30], [1, 2], true);
        const found = nextTicks(
          { cron: '0,30 1-2 * * *', time_zone },
          new Date(change.at - DAY),
          expected.length,
        );
        expect(found.map(Number), time_zone).toEqual(expected);
      }
    }
  });
});

test('the examples of the documentation', () => {
  const rule = { cron: '30 2 * * *', time_zone: 'Europe/Berlin' };
  expect(nextTick(rule, new Date('2026-03-28T12:00:00Z'))).toEqual(new Date('2026-03-29T01:00:00Z'));
  expect(nextTick(rule, new Date('2026-10-24T12:00:00Z'))).toEqual(new Date('2026-10-25T00:30:00Z'));
  expect(nextTick(rule, new Date('2026-10-25T00:30:00Z'))).toEqual(new Date('2026-10-26T01:30:00Z'));
  expect(describeRule(rule)).toBe('At 02:30, Europe/Berlin');
});

test('moments up to a time are in order and bounded', () => {
  const rule = { cron: '* * * * *', time_zone: 'UTC' };
  const first = new Date('2026-01-01T00:00:00Z');
  expect(ticksUntil(rule, first, new Date('2026-01-01T00:02:30Z'), 10)).toHaveLength(3);
  expect(ticksUntil(rule, first, new Date('2026-02-01T00:00:00Z'), 500)).toHaveLength(500);
  expect(ticksUntil(rule, first, new Date('2025-12-31T00:00:00Z'), 10)).toEqual([]);
});

test('a calendar month begins at midnight of its zone', () => {
  expect(monthOf('America/New_York', new Date('2026-03-01T03:00:00Z'))).toEqual({
    from: new Date('2026-02-01T05:00:00Z'),
    to: new Date('2026-03-01T05:00:00Z'),
  });
  const first = new Date('2026-03-01T05:00:00Z');
  expect(monthOf('America/New_York', first)).toEqual({ from: first, to: new Date('2026-04-01T04:00:00Z') });
});

test.each([
  ['0 0 30 2 *', 'UTC', '/cron', 'no moment'],
  ['0 0 2 * * *', 'UTC', '/cron', 'five fields, without seconds'],
  ['* * * * * *', 'UTC', '/cron', 'at most once a minute'],
  ['0 2 * *', 'UTC', '/cron', 'five fields'],
  ['', 'UTC', '/cron', 'five fields'],
  ['@daily', 'UTC', '/cron', 'five fields'],
  ['60 2 * * *', 'UTC', '/cron', 'not a cron rule'],
  ['0 2 * * MOO', 'UTC', '/cron', 'not a cron rule'],
  ['? 2 * * *', 'UTC', '/cron', 'digits, names'],
  ['0 2 * * *', 'Europe/Atlantis', '/time_zone', 'not an IANA time zone'],
  ['0 2 * * *', '+01:00', '/time_zone', 'not an IANA time zone'],
  ['0 2 * * *', '', '/time_zone', 'not an IANA time zone'],
])('the rule %j in %j is refused with its field', (cron, time_zone, path, part) => {
  const check = (): void => assertRule({ cron, time_zone }, new Date('2026-01-01T00:00:00Z'));
  expect(check).toThrow(part);
  expect(check).toThrow(
    expect.objectContaining({ code: 'validation_failed', fields: [expect.objectContaining({ path })] }),
  );
});

test('a leap day is a moment', () => {
  const rule = { cron: '0 0 29 2 *', time_zone: 'UTC' };
  expect(nextTick(rule, new Date('2026-03-01T00:00:00Z'))).toEqual(new Date('2028-02-29T00:00:00Z'));
});
