import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freePort } from '../../scripts/stack/port.ts';

/** Returns the message for an unprivileged user who requires port 80; null if the system allows it. */
function toldOfPort80(): string | null {
  const program = `
    import { freePort } from ${JSON.stringify(join(import.meta.dirname, '../../scripts/stack/port.ts'))};
    if (process.getuid?.() === 0) process.setuid(65_534);
    await freePort(80, true).then((port) => console.log(port), ({ message }) => console.log(message));`;
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  expect(status).toBe(0);
  return stdout === '80\n' ? null : stdout.trimEnd();
}

test('a port without permission is reported as such', ({ skip }) => {
  const told = toldOfPort80();
  if (told === null) return skip('port 80 is open to all users here');
  expect(told).toBe(
    'PORT 80 cannot be used: this user may not listen on it, as is usual below 1024. Choose another port; 0 takes any.',
  );
});

test('a taken port is an error if it is required, and replaced otherwise', async () => {
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  try {
    const { port } = squatter.address() as { port: number };
    await expect(freePort(port, true)).rejects.toThrow(
      `PORT ${port} cannot be used: another program listens on it. Choose another port; 0 takes any.`,
    );
    expect(await freePort(port, false)).not.toBe(port);
  } finally {
    squatter.close();
  }
});
