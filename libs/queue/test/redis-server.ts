import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { refusedPort } from './tcp-gate.ts';

export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

/** A private Redis without persistence. */
export interface TestRedis {
  readonly port: number;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
  /** Restarts it empty on the same port. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export async function startRedis(): Promise<TestRedis> {
  const directory = await mkdtemp(join(tmpdir(), 'nightshift-redis-'));
  const port = await refusedPort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      directory,
    ];
    const started = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    child = started;
    let log = '';
    await new Promise<void>((resolve, reject) => {
      started.once('exit', (code) => {
        reject(new Error(`redis-server ended with ${code}:\n${log}`));
      });
      started.stdout.on('data', (chunk: Buffer) => {
        log += chunk.toString();
        if (log.includes('Ready to accept connections')) resolve();
      });
    });
  }

  async function kill(): Promise<void> {
    if (child === undefined) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    child = undefined;
  }

  await start();
  return {
    port,
    start,
    kill,
    async close() {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
