import { Linter } from 'eslint';
import { expect, test } from 'vitest';
import { plainWords } from '../../scripts/lint/plain-words.ts';

const config: Linter.Config = {
  plugins: { nightshift: { rules: { 'plain-words': plainWords } } },
  rules: { 'nightshift/plain-words': 'error' },
};

test.each([
  ['a comment', '// No' + 'body acts.\nconst state = 1;'],
  ['a doc comment', '/** Tells some' + 'body. */\nconst state = 1;'],
  ['a string', "const next = 'Who" + "ever waits';"],
  ['a template', 'const next = `any' + 'body of ${state}`;'],
])('a banned word is refused in %s', (_, code) => {
  const problems = new Linter().verify(code, config);
  expect(problems.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^Name the subject instead of '\w+'\.$/),
  ]);
});

test('names of variables and other words are allowed', () => {
  const code = "// No body, some bodies.\nconst anybodyElse = 'nobodies';";
  expect(new Linter().verify(code, config)).toEqual([]);
});
