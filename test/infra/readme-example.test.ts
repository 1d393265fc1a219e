import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { read, root } from './repository.ts';
import { fencesOf, needPrograms, openDirectory, run, startFastStack } from './session.ts';

/** Commands that take long or need Docker, each with its own test. */
const TESTED_ELSEWHERE: readonly (readonly [command: RegExp, testFile: string])[] = [
  [/^npm run demo$/, 'test/infra/readme-example.test.ts'],
  [/^(WORKERS=8 )?npm start$/, 'test/stack/start.test.ts'],
  [/^\S+ docker compose --profile simulated up /, 'test/infra/compose.test.ts'],
  [/^\S+ \S+ docker compose up --build$/, 'test/infra/compose.test.ts'],
];

test('the README has at most 1,200 words', () => {
  const words = read('README.md').split(/\s+/).filter(Boolean);
  expect(words.length).toBeLessThanOrEqual(1_200);
});

test('every command of the README is run by a test', () => {
  const languages = [...read('README.md').matchAll(/^```(\w+)$/gm)].map(([, language]) => language);
  expect(new Set(languages)).toEqual(new Set(['sh', 'bash', 'text']));
  const commands = fencesOf('README.md', 'sh').flatMap((fence) => fence.trim().split('\n'));
  const untested = commands.filter((line) => !TESTED_ELSEWHERE.some(([command]) => command.test(line)));
  expect(untested).toEqual([]);
  expect(TESTED_ELSEWHERE.filter(([, file]) => !existsSync(join(root, file)))).toEqual([]);
});

test("the README's session works as documented", async (context) => {
  needPrograms(context);
  const { apiUrl, apiKey } = await startFastStack();
  // A reader's command finds the address and the key in .data.
  const { output, errors, code } = await run(['bash', '-ec', fencesOf('README.md', 'bash').join('')], {
    NIGHTSHIFT_URL: apiUrl,
    NIGHTSHIFT_API_KEY: apiKey,
  });

  expect(code, errors).toBe(0);
  expect(output.match(/^New customer\.\n- Please write e-mails\. \([\d-]+\)$/gm)).toHaveLength(1);
  expect(output.match(/^New customer\.$/gm)).toHaveLength(2);
  expect(output).toMatch(/^\{\+- Please write e-mails\. \([\d-]+\)\+\}$/m);
  expect(output).toMatch(/^1 change accepted$/m);
  expect(output).toMatch(/"custom_id":"Ada",.*"state":"completed"/);
  expect(output).toMatch(/"custom_id":"Alan",.*"state":"completed"/);
  expect(output).toMatch(/^refused: exit code 2$/m);
  expect(errors).toMatch(/smallest sensible cap for this batch is about \$0\.\d+/);
});

test("a small demo passes and prints the README's lines, and so does another on its database", async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  const env = { DATA_DIR: openDirectory(), DATABASE_URL: database.url, PORT: '0' };
  const { output, code } = await run(
    [process.execPath, 'scripts/demo.ts', '--agents', '8', '--no-chaos'],
    env,
  );
  const again = await run([process.execPath, 'scripts/demo.ts', '--agents', '2', '--no-chaos'], env);
  expect(again).toMatchObject({ code: 0, output: expect.stringContaining('nothing new: 2 agents, $0.00') });
  const [picture = ''] = fencesOf('README.md', 'text');
  const shape = (line: string): string => line.replaceAll(/[\d.,]+/g, '#').replace(/:.*/, '');
  const printed = new Set(output.split('\n').map(shape));
  const checks = picture.split('\n').filter((line) => /^(Model|nothing new|  ✔)/.test(line));
  expect(checks).toHaveLength(5);
  expect(checks.map(shape).filter((line) => !printed.has(line))).toEqual([]);
  expect(code).toBe(0);
});
