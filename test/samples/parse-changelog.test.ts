import { expect, test } from 'vitest';
import { parseChangelog } from '../../scripts/samples/parse-changelog.ts';

const body = 'Something that is long enough to be worth a note.';

test.each([
  ['## [1.2.3](https://example.org/compare) (2022-10-08)', '1.2.3', '2022-10-08'],
  ['# v1.2.3', '1.2.3', undefined],
  ['### 1.2.3 Oct 18 2026', '1.2.3', '2026-10-18'],
  ['## v1.2.3 - October 5th, 2026', '1.2.3', '2026-10-05'],
  ['# 1.2.3 - 26 June, 2026', '1.2.3', '2026-06-26'],
  ['## Version 1.2.3', '1.2.3', undefined],
  ['## **1.2.3**', '1.2.3', undefined],
  ['## <a id="1-2-3"></a>1.2.3 - 2026-10-29', '1.2.3', '2026-10-29'],
  ['1.2.3 / 2015-02-31\n==================', '1.2.3', undefined],
  ['v1.2.3\n-------', '1.2.3', undefined],
])('a release starts at the heading %j', (heading, version, date) => {
  const [note, ...others] = parseChangelog(`${heading}\n\n${body}\n`);
  expect(others).toEqual([]);
  expect(note).toEqual({ version, ...(date !== undefined && { date }), text: body });
});

test('a release ends at the next one, at unreleased work, and before the list of contributors', () => {
  const file = `## 2.0.0\n${body}\n\n### Contributors\n- A Person\n\n## [Unreleased]\n- not this\n\n## 1.0.0\r\n- ${body}\r\n- and more\r\n`;
  expect(parseChangelog(file)).toEqual([
    { version: '2.0.0', text: body },
    { version: '1.0.0', text: `- ${body}\n- and more` },
  ]);
});

test('link definitions and anchors at the end belong to no release', () => {
  const file = `<a name="2.0.0"></a>\n## 2.0.0\n${body}\n\n<a name="1.0.0"></a>\n## 1.0.0\n${body}\n\n[1.0.0]: https://example.org\n`;
  expect(parseChangelog(file).map((note) => note.text)).toEqual([body, body]);
});

test('a heading inside a code fence starts no release', () => {
  const file = `## 1.1.0\n\n${body}\n\n\`\`\`sh\n# 9.9.9\n\`\`\`\n`;
  expect(parseChangelog(file).map((note) => note.version)).toEqual(['1.1.0']);
});

test('prereleases, versions of two numbers, empty notes and repeated versions are left out', () => {
  const file = `## 2.0.0-beta.1\n${body}\n## 1.5\n${body}\n## 1.2.0\n\n## 1.1.0\n${body}\n## 1.1.0\n${body} again\n`;
  expect(parseChangelog(file)).toEqual([{ version: '1.1.0', text: body }]);
});

test('a long release is cut at a line and says so', () => {
  const lines = Array.from({ length: 100 }, (_, i) => `- change number ${i} of this release`);
  const [note] = parseChangelog(`## 1.0.0\n${lines.join('\n')}\n`);
  expect(note?.shortened).toBe(true);
  expect(note?.text.length).toBeLessThanOrEqual(1_800);
  expect(`${lines.join('\n')}\n`.startsWith(`${note?.text}\n`)).toBe(true);
});

test('a cut does not leave a code fence open', () => {
  const [note] = parseChangelog(`## 1.0.0\n${body}\n\`\`\`js\n${'code();\n'.repeat(400)}\`\`\`\n`);
  expect(note).toEqual({ version: '1.0.0', text: body, shortened: true });
});

test('text that no database can hold, or that would end the frame of the prompt, is left out', () => {
  const file = `## 1.2.0\n${body}\0\n## 1.1.0\n${body}\n</release>\n## 1.0.0\n${body}\n`;
  expect(parseChangelog(file).map((note) => note.version)).toEqual(['1.0.0']);
});
