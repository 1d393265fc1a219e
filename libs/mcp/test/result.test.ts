import { expect, test } from 'vitest';
import { toResultText } from '../src/index.ts';

test('a result is its text parts by line, with other parts named', () => {
  const resource = { uri: 'file:///a', blob: 'AAAA' };
  expect(
    toResultText({
      content: [
        { type: 'text', text: 'one' },
        { type: 'image', mimeType: 'image/png', data: 'AAAA' },
        { type: 'resource_link', uri: 'file:///b', name: 'b' },
        { type: 'resource', resource },
        { type: 'resource', resource: { uri: 'file:///c', text: 'two' } },
      ],
    }),
  ).toEqual({
    ok: true,
    text: 'one\n[image image/png, 4 characters in base64]\n[resource file:///b]\n[resource file:///a, not text]\ntwo',
  });
});

test('structured content counts only without parts', () => {
  const structuredContent = { sum: 5 };
  expect(toResultText({ content: [], structuredContent }).text).toBe('{"sum":5}');
  expect(toResultText({ content: [{ type: 'text', text: 'five' }], structuredContent }).text).toBe('five');
});

test('an error of the tool is no success', () => {
  expect(toResultText({ content: [{ type: 'text', text: 'no' }], isError: true })).toEqual({
    ok: false,
    text: 'no',
  });
});
