import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import {
  ARCHIVAL_INSERTED,
  archivalResult,
  conversationResult,
  readStoreCall,
} from '../../src/memory/store-calls.ts';
import { parseZonedTime } from '../../src/memory/zoned-time.ts';

function read(tool: string, args: JsonObject, timeZone = 'UTC') {
  const read = readStoreCall(tool, args, timeZone);
  return read.ok ? read.call : read.outcome.result.replace(/^Error executing function \w+: \w+: /, '');
}

/** Returns this many different words. */
const words = (count: number) => Array.from({ length: count }, (_, n) => `w${n}`).join(' ');

describe('archival memory', () => {
  test('keeps a passage with its tags, each once', () => {
    expect(read('archival_memory_insert', { content: 'a\u0000b', tags: [' x ', 'y', 'x', ''] })).toEqual({
      kind: 'archival_insert',
      content: 'ab',
      tags: ['x', 'y'],
    });
    expect(read('archival_memory_insert', { content: 'a', tags: null })).toMatchObject({ tags: [] });
    expect(ARCHIVAL_INSERTED.ok).toBe(true);
  });

  test('is searched by words, tags and time', () => {
    expect(read('archival_memory_search', { query: 'tea' })).toEqual({
      kind: 'archival_search',
      query: 'tea',
      tags: [],
      tag_match: 'any',
      limit: 10,
      from: null,
      to: null,
    });
    expect(
      read(
        'archival_memory_search',
        {
          query: 'tea',
          tags: ['x'],
          tag_match_mode: 'all',
          top_k: 1000,
          start_datetime: '2026-01-31T14:00',
          end_datetime: '2026-02-01',
        },
        'Europe/Oslo',
      ),
    ).toEqual({
      kind: 'archival_search',
      query: 'tea',
      tags: ['x'],
      tag_match: 'all',
      limit: 100,
      from: new Date('2026-01-31T13:00:00Z'),
      to: new Date('2026-02-01T22:59:59.999Z'),
    });
  });

  test.each<[string, string, string]>([
    ['that is short is searched as it is', ' the tea  and the\nTea ', ' the tea  and the\nTea '],
    ['that repeats a few words is searched as it is', 'tea '.repeat(150), 'tea '.repeat(150)],
    [
      'of many words is searched by the first hundred different words',
      `tea tea ${words(300)}`,
      `tea ${words(99)}`,
    ],
    ['without white space is searched by its beginning', 'tea,'.repeat(2_000), 'tea,'.repeat(1_000)],
    [
      'that is cut within a character is text still',
      `a${'🍵'.repeat(5_000)}`,
      `a${'🍵'.repeat(1_999)}\ufffd`,
    ],
  ])('a query %s', (_what, query, searched) => {
    expect(read('archival_memory_search', { query })).toMatchObject({ query: searched });
    expect(read('conversation_search', { query })).toMatchObject({ query: searched });
  });

  test('counts characters, not the units that they take', () => {
    const args = { content: '🍵'.repeat(60_000), tags: ['🍵'.repeat(200)] };
    expect(read('archival_memory_insert', args)).toMatchObject({ kind: 'archival_insert' });
  });

  test.each<[string, JsonObject, string]>([
    ['archival_memory_insert', {}, "Argument 'content' is missing."],
    ['archival_memory_insert', { content: 1 }, "Argument 'content' must be a string."],
    ['archival_memory_insert', { content: ' ' }, "Argument 'content' must not be empty."],
    [
      'archival_memory_insert',
      { content: 'x'.repeat(100_001) },
      "Argument 'content' has 100001 characters; a passage may have 100000.",
    ],
    ['archival_memory_insert', { content: 'a', tags: 'x' }, "Argument 'tags' must be a list of strings."],
    ['archival_memory_insert', { content: 'a', tags: [1] }, "Argument 'tags' must be a list of strings."],
    [
      'archival_memory_insert',
      { content: 'a', tags: ['x'.repeat(256)] },
      "Argument 'tags' may hold 100 tags of at most 255 characters each.",
    ],
    ['archival_memory_search', { query: 'a', tags: 7 }, "Argument 'tags' must be a list of strings."],
    ['archival_memory_search', {}, "Argument 'query' is missing."],
    [
      'archival_memory_search',
      { query: 'a', tag_match_mode: 'none' },
      "Argument 'tag_match_mode' must be 'any' or 'all'.",
    ],
    [
      'archival_memory_search',
      { query: 'a', top_k: 0 },
      "Argument 'top_k' must be a whole number from 1 to 100.",
    ],
    [
      'archival_memory_search',
      { query: 'a', start_datetime: 'yesterday' },
      'Invalid start_datetime format: yesterday. Use an ISO 8601 date or time, as 2026-01-31 or 2026-01-31T14:00.',
    ],
    [
      'archival_memory_search',
      { query: 'a', end_datetime: 7 },
      'Invalid end_datetime format: 7. Use an ISO 8601 date or time, as 2026-01-31 or 2026-01-31T14:00.',
    ],
    [
      'archival_memory_search',
      { query: 'a', start_datetime: '2026-02-01', end_datetime: '2026-01-01' },
      'start_datetime is later than end_datetime.',
    ],
    ['memory_forget', {}, 'There is no memory tool of this name.'],
  ])('%s names the error in its arguments', (tool, args, message) => {
    expect(read(tool, args)).toBe(message);
  });

  test('shows the hits as JSON, best first', () => {
    const hit = { id: 'p-1', content: 'tea', tags: ['x'], created_at: new Date('2026-01-01T10:00:00Z') };
    expect(
      JSON.parse(
        archivalResult([
          { ...hit, rank: 0.123456 },
          { ...hit, rank: null },
        ]).result,
      ),
    ).toEqual({
      message: 'Showing 2 results:',
      results: [
        { id: 'p-1', timestamp: '2026-01-01T10:00:00.000Z', relevance: 0.1235, tags: ['x'], content: 'tea' },
        { id: 'p-1', timestamp: '2026-01-01T10:00:00.000Z', tags: ['x'], content: 'tea' },
      ],
    });
    expect(JSON.parse(archivalResult([]).result)).toEqual({ message: 'No results found.', results: [] });
  });

  test('cuts long passages, so that all of them fit a prompt, and no short passages', () => {
    const hit = { id: 'p-1', tags: [], created_at: new Date('2026-01-01T10:00:00Z'), rank: null };
    const contents = ['tea', 'x'.repeat(100_000), 'y'.repeat(30_000), 'z'.repeat(1_000)];
    const { result } = archivalResult(contents.map((content) => ({ ...hit, content })));
    const { results } = JSON.parse(result) as { results: { content: string }[] };
    expect(results.map(({ content }) => content.length)).toEqual([3, 24_577, 24_576, 1_000]);
    expect(results[1]?.content).toMatch(
      /^x{24498}… \[NOTE: 24498 of 100000 characters are shown; fewer results show more of each\]$/,
    );
    expect(result.length).toBeLessThan(51_000);
  });

  test('shows as much of many passages as of few, with the first of many tags', () => {
    const tags = Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(255, '-'));
    const hit = { id: 'p-1', tags, content: '😀'.repeat(50_000), created_at: new Date(0), rank: 1 };
    const { result } = archivalResult(Array.from({ length: 100 }, () => hit));
    const { results } = JSON.parse(result) as {
      results: { content: string; tags: string[]; tags_not_shown: number }[];
    };
    expect(results).toHaveLength(100);
    expect([results[0]?.tags, results[0]?.tags_not_shown]).toEqual([tags.slice(0, 1), 99]);
    expect(results[0]?.content).toMatch(/^(😀)+… \[NOTE: /u);
    expect(result.length).toBeLessThan(100_000);
  });
});

describe('the search of a conversation', () => {
  test('has defaults, and takes no query for the latest messages', () => {
    expect(read('conversation_search', {})).toEqual({
      kind: 'conversation_search',
      query: null,
      roles: ['assistant', 'user', 'tool'],
      limit: 5,
      from: null,
      to: null,
    });
    expect(read('conversation_search', { query: ' ', roles: [], start_date: '' })).toMatchObject({
      query: null,
      roles: ['assistant', 'user', 'tool'],
      from: null,
    });
    expect(read('conversation_search', { query: 'tea', roles: ['tool', 'user'], limit: 7 })).toMatchObject({
      query: 'tea',
      roles: ['user', 'tool'],
      limit: 7,
    });
  });

  test('ends with the end of the named day', () => {
    expect(
      read('conversation_search', { start_date: '2024-01-20', end_date: '2024-01-20' }, 'America/New_York'),
    ).toMatchObject({
      from: new Date('2024-01-20T05:00:00Z'),
      to: new Date('2024-01-21T04:59:59.999Z'),
    });
  });

  test.each<[JsonObject, string]>([
    [{ query: 7 }, "Argument 'query' must be a string."],
    [{ roles: ['system'] }, "Argument 'roles' must be a list of assistant, user, tool."],
    [{ roles: 'user' }, "Argument 'roles' must be a list of assistant, user, tool."],
    [{ limit: 1.5 }, "Argument 'limit' must be a whole number from 1 to 100."],
    [{ start_date: '2026-02-30' }, expect.stringContaining('Invalid start_date format: 2026-02-30')],
  ])('names the error in its arguments', (args, message) => {
    expect(read('conversation_search', args)).toEqual(message);
  });

  test('cuts long messages', () => {
    const hit = { role: 'user' as const, created_at: new Date(0), rank: null };
    const hits = Array.from({ length: 10 }, () => ({ ...hit, content: 'x'.repeat(100_000) }));
    const { result } = conversationResult(hits, new Date(0));
    const { results } = JSON.parse(result) as { results: { content: string }[] };
    expect(results.map(({ content }) => content.length)).toEqual(hits.map(() => 5_078));
    expect(result.length).toBeLessThan(52_000);
  });

  test('says how many results it shows, and how long ago they were', () => {
    const now = new Date('2026-01-02T12:00:00Z');
    const at = (iso: string) => ({
      role: 'user' as const,
      content: 'hi',
      created_at: new Date(iso),
      rank: null,
    });
    const times = [
      '2025-12-30T12:00:00Z',
      '2026-01-02T09:30:00Z',
      '2026-01-02T11:58:30Z',
      '2026-01-02T12:00:10Z',
    ];
    const { message, results } = JSON.parse(conversationResult(times.map(at), now).result) as {
      message: string;
      results: { time_ago: string }[];
    };
    expect(message).toBe('Showing 4 results:');
    expect(results.map((result) => result.time_ago)).toEqual(['3d ago', '2h ago', '1m ago', 'just now']);
    const one = conversationResult([{ ...at('2026-01-01T12:00:00Z'), rank: 1 }], now);
    expect(JSON.parse(one.result)).toEqual({
      message: 'Showing 1 result:',
      results: [
        {
          timestamp: '2026-01-01T12:00:00.000Z',
          time_ago: '1d ago',
          role: 'user',
          relevance: 1,
          content: 'hi',
        },
      ],
    });
  });
});

describe('times as people write them', () => {
  test.each<[string, string, 'start' | 'end', string | null]>([
    ['2026-01-31', 'UTC', 'start', '2026-01-31T00:00:00.000Z'],
    ['2026-01-31', 'UTC', 'end', '2026-01-31T23:59:59.999Z'],
    ['2026-01-31', 'Asia/Tokyo', 'start', '2026-01-30T15:00:00.000Z'],
    ['2026-03-29', 'Europe/Oslo', 'end', '2026-03-29T21:59:59.999Z'],
    ['2026-01-31T14:00', 'Europe/Oslo', 'end', '2026-01-31T13:00:00.000Z'],
    ['2026-07-31 14:00:01', 'Europe/Oslo', 'start', '2026-07-31T12:00:01.000Z'],
    ['2026-01-31T14:00:00.5Z', 'Asia/Tokyo', 'start', '2026-01-31T14:00:00.500Z'],
    ['2026-01-31T14:00:00.123456+02:00', 'UTC', 'start', '2026-01-31T12:00:00.123Z'],
    ['2026-01-31T14:00-0530', 'UTC', 'start', '2026-01-31T19:30:00.000Z'],
    // Clocks show 02:30 twice, and the first counts; they never show 02:30 in spring.
    ['2026-10-25T02:30', 'Europe/Oslo', 'start', '2026-10-25T00:30:00.000Z'],
    ['2026-03-29T02:30', 'Europe/Oslo', 'start', '2026-03-29T01:30:00.000Z'],
    ['2026-01-31T14:00', 'Nowhere/Land', 'start', '2026-01-31T14:00:00.000Z'],
    // Means no end: the database holds no year that JavaScript writes with a sign.
    ['9999-12-31', 'America/New_York', 'end', '9999-12-31T23:59:59.999Z'],
    ['9999-12-31T23:59:59-05:00', 'UTC', 'start', '9999-12-31T23:59:59.999Z'],
    ['9999-12-31T23:59:59+05:00', 'UTC', 'end', '9999-12-31T18:59:59.000Z'],
    ['0000-01-01', 'UTC', 'start', '0001-01-01T00:00:00.000Z'],
    ['0001-01-01', 'Asia/Tokyo', 'start', '0001-01-01T00:00:00.000Z'],
    ['0001-01-01T00:00:00-05:00', 'UTC', 'start', '0001-01-01T05:00:00.000Z'],
    ['0099-12-31', 'America/New_York', 'end', '0100-01-01T04:56:01.999Z'],
    ['2026-02-30', 'UTC', 'start', null],
    ['2026-13-01', 'UTC', 'start', null],
    ['2026-01-31T24:00', 'UTC', 'start', null],
    ['2026-02-30T10:00', 'UTC', 'start', null],
    ['2026-11-21T06:00+99:00', 'UTC', 'start', null],
    ['2026-11-21T06:00-05:60', 'UTC', 'start', null],
    ['tomorrow', 'UTC', 'start', null],
    ['2026', 'UTC', 'start', null],
  ])('%s in %s, as the %s of a span', (text, timeZone, end, expected) => {
    expect(parseZonedTime(text, timeZone, end)?.toISOString() ?? null).toBe(expected);
  });
});
