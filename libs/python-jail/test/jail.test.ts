import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { openPythonJail } from '../src/index.ts';
import { findInterpreter } from '../src/interpreter.ts';
import { createJail } from '../src/jail.ts';
import { createSeccompFilter } from '../src/seccomp.ts';
import { testJail } from '../src/self-test.ts';
import { call, openJailOrSkip } from './support.ts';

const opened = await openJailOrSkip();
const jail = opened!;
afterAll(() => opened?.close());

describe.skipIf(opened === undefined)('the jail', () => {
  test('says which layers hold', () => {
    expect(jail.layers).toEqual(['process', 'bubblewrap', 'seccomp', 'limits']);
    expect(jail.version).toMatch(/^3\.\d+\.\d+$/);
  });

  test.each([
    ['a file of the host', 'open("/etc/hostname").read()', /FileNotFoundError/],
    [
      'a file of this repository',
      `open(${JSON.stringify(import.meta.filename)}).read()`,
      /FileNotFoundError/,
    ],
    ['a place to write', 'open("/probe", "w")', /OSError|PermissionError/],
    ['a new process', 'os.fork()', /PermissionError/],
    ['a thread', 'threading.Thread(target=print).start()', /can't start new thread/],
    ['a socket', 'socket.socket()', /PermissionError/],
    ['a file in memory', 'os.memfd_create("x")', /PermissionError/],
    ['a higher limit', 'resource.setrlimit(resource.RLIMIT_AS, (-1, -1))', /ValueError: not allowed/],
  ])('leaves no %s', async (_, expression, error) => {
    const source = `import os, resource, socket, threading\ndef f(): return str(${expression})`;
    const { status, result } = await call(jail, source);
    expect([status, result]).toEqual(['failed', expect.stringMatching(error)]);
  });

  test('hides the commands, the variables and the processes of the machine', async () => {
    const source = `
import os
def f():
    return [os.getpid() <= 3, os.path.exists("/proc"), os.path.exists("/usr/bin/env"), sorted(os.listdir("/dev"))]`;
    expect(JSON.parse((await call(jail, source)).result)).toEqual([true, false, false, ['null', 'urandom']]);
  });
});

test('without an interpreter there is no jail, and the reason says what to install', async () => {
  await expect(openPythonJail(['/nowhere/python3'])).rejects.toThrow(
    existsSync('/usr/bin/bwrap')
      ? /CPython 3\.9 or newer is needed.*install python3/
      : /install the package bubblewrap/,
  );
});

test.skipIf(!existsSync('/usr/bin/bwrap'))('an interpreter that is too old is named', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'nightshift-python-'));
  const path = join(folder, 'python3');
  const found = {
    implementation: 'cpython',
    version: [3, 8, 1],
    executable: path,
    stdlib: [],
    libraries: [],
  };
  writeFileSync(path, `#!/bin/sh\necho '${JSON.stringify(found)}'\n`, { mode: 0o755 });
  await expect(openPythonJail([path])).rejects.toThrow(/python3 is cpython 3\.8\.1; install python3/);
  rmSync(folder, { recursive: true });
});

test.skipIf(opened === undefined)('the self-test names each hole', async () => {
  const jail = createJail(await findInterpreter(), createSeccompFilter());
  await expect(testJail(jail)).resolves.toBeUndefined();
  // A program of one instruction, which allows every call.
  const open = { ...jail, filter: Buffer.from([6, 0, 0, 0, 0, 0, 0xff, 0x7f]) };
  await expect(testJail(open)).rejects.toThrow(/found .*"sockets":.*"forks":.*"files in memory"/);
  const at = jail.arguments.indexOf('--remount-ro');
  const more = [
    ...jail.arguments.slice(0, at),
    '--ro-bind',
    '/etc',
    '/etc',
    '--tmpfs',
    '/tmp',
    '--proc',
    '/proc',
  ];
  const wide = { ...jail, arguments: [...more, ...jail.arguments.slice(at)] };
  await expect(testJail(wide)).rejects.toThrow(
    /found .*"writable": \["\/tmp"\].*"visible": \["\/etc", "\/proc", "\/tmp"\]/,
  );
  const broken = { ...jail, arguments: ['--ro-bind', '/nowhere', '/nowhere', '--'] };
  await expect(testJail(broken)).rejects.toThrow(/the jail did not start: .*\/nowhere/);
});

test('the filter of system calls exists for two processors', () => {
  for (const architecture of ['x64', 'arm64'] as const)
    expect(createSeccompFilter(architecture).length % 8).toBe(0);
  expect(() => createSeccompFilter('riscv64')).toThrow(/not for riscv64/);
});

test.skipIf(opened === undefined)('no process is left when its starter is killed', async () => {
  const source = `
import { readFileSync } from 'node:fs';
import { openPythonJail } from ${JSON.stringify(new URL('../src/index.ts', import.meta.url).href)};
const childrenOf = (pid) => {
  const children = readFileSync('/proc/' + pid + '/task/' + pid + '/children', 'utf8').split(' ').filter(Boolean);
  return children.flatMap((child) => [child, ...childrenOf(child)]);
};
const jail = await openPythonJail();
void jail.runCall({ call_id: 'x', tool_name: 'f', arguments: {}, env: {}, timeout_ms: 60_000, result_char_limit: 100,
  source: 'def f():\\n  fetch("x")\\n  while True: pass',
  onFetch: async () => {
    process.stdout.write(childrenOf(process.pid).join(' '), () => process.kill(process.pid, 'SIGKILL'));
    return {};
  } });
`;
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
    encoding: 'utf8',
  });
  const pids = stdout.split(' ');
  // bwrap outside, bwrap as the first process of the jail, and the interpreter.
  expect([signal, pids.length]).toEqual(['SIGKILL', 3]);
  await expect.poll(() => pids.filter(isRunning)).toEqual([]);
});

/** A process that has ended stays a zombie where nothing reaps it. */
function isRunning(pid: string): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}
