import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { jailed, PERMISSION_FLAGS, testJail } from '../src/jail.ts';
import { run, startHost } from './support.ts';

const node = process.execPath;
const jail = await testJail(node);

function evaluate(
  program: string,
  args: readonly string[],
): { readonly status: number | null; readonly text: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { env: {}, encoding: 'utf8' });
  return { status, text: stdout + stderr };
}

describe('the permission model', () => {
  test.each([
    ['read a file of the system', 'require("fs").readFileSync("/etc/passwd")'],
    [
      'read a file of the repository',
      `require("fs").readFileSync(${JSON.stringify(import.meta.filename)}.replace("sandbox-host/test/jail.test.ts", "worker/package.json"))`,
    ],
    [
      'write its own folder',
      `require("fs").writeFileSync(${JSON.stringify(import.meta.dirname)} + "/probe", "")`,
    ],
    ['start a process', 'require("child_process").execFileSync("true")'],
    ['load an addon', 'process.dlopen({ exports: {} }, "/usr/lib/x.node")'],
  ])('does not let the process %s', (_, code) => {
    const { status, text } = evaluate(node, [...PERMISSION_FLAGS, '-e', code]);
    expect(status).not.toBe(0);
    expect(text).toMatch(/ERR_ACCESS_DENIED|ERR_DLOPEN_DISABLED/);
  });
});

describe.skipIf(!jail.holds)('bubblewrap', () => {
  test.each([
    ['no network', 'Object.keys(require("os").networkInterfaces()).filter((n) => n !== "lo").length', '0'],
    ['no other process', 'process.pid <= 3', 'true'],
    ['no environment', 'Object.keys(process.env).filter((n) => n !== "TZ" && n !== "PWD").length', '0'],
    ['no folder of a user', 'require("fs").existsSync("/etc/passwd")', 'false'],
    ['no right to write', 'try { require("fs").writeFileSync("/probe", ""); 1 } catch { 0 }', '0'],
  ])('leaves the process %s', (_, code, expected) => {
    const { program, arguments: args } = jailed(node, ['-p', code]);
    expect(evaluate(program, args)).toEqual({ status: 0, text: `${expected}\n` });
  });

  test('runs calls', async () => {
    const host = await startHost();
    expect(host.layers.map(({ name, holds }) => [name, holds])).toEqual([
      ['quickjs', true],
      ['process', true],
      ['permission', true],
      ['bubblewrap', true],
    ]);
    expect(await run(host, 'export const f = () => 1')).toMatchObject({ result: '1' });
    await host.close();
  });
});

test('without bubblewrap the host says so and runs calls', async () => {
  const host = await startHost({ bubblewrap: 'off' });
  expect(host.layers.at(-1)).toEqual({ name: 'bubblewrap', holds: false, reason: 'it is switched off' });
  expect(await run(host, 'export const f = () => 1')).toMatchObject({ result: '1' });
  await host.close();
});
