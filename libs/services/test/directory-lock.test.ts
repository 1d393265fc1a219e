import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { directoryOwner, DirectoryInUseError, holdDirectory } from '../src/index.ts';

const SILENCE_MS = 2_000;

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-services-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The lock of another container, whose pid has no process here. */
function lockFromElsewhere(directory: string): string {
  const lockFile = join(directory, 'owner.lock');
  writeFileSync(lockFile, '4194305 17 of-this-boot\nsome-uuid\nbox pid:[1]\n');
  return lockFile;
}

/** Touches a file every 50 ms, like a holder with a shorter interval. */
async function beatFromOutside(file: string): Promise<void> {
  const code = `setInterval(() => fs.utimesSync(process.argv[1], new Date(), new Date()), 50); console.log('beating')`;
  const beating = spawn(process.execPath, ['-e', code, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void beating.kill('SIGKILL'));
  await once(beating.stdout, 'data');
}

test('a lock from another container holds while it is touched', async () => {
  const directory = newDirectory();
  const lockFile = lockFromElsewhere(directory);
  const before = readFileSync(lockFile, 'utf8');
  await beatFromOutside(lockFile);
  expect(directoryOwner(directory, SILENCE_MS)).toEqual({ pid: 4_194_305, elsewhere: 'box pid:[1]' });
  expect(() => holdDirectory(directory, SILENCE_MS)).toThrow(DirectoryInUseError);
  expect(() => holdDirectory(directory, SILENCE_MS)).toThrow(/, or set DATA_DIR to another directory\.$/);
  expect(() => holdDirectory(directory, SILENCE_MS)).toThrow(
    /another container or machine.*box.*Stop it there/s,
  );
  expect(readFileSync(lockFile, 'utf8')).toBe(before);
});

test('a lock from another container is taken over once it is no longer touched', () => {
  const directory = newDirectory();
  const lockFile = lockFromElsewhere(directory);
  expect(directoryOwner(directory, SILENCE_MS)).toBeNull();
  const release = holdDirectory(directory, SILENCE_MS);
  expect(directoryOwner(directory)).toEqual({ pid: process.pid });
  release();
  expect(existsSync(lockFile)).toBe(false);
});

test('a lock is touched until it is released, for containers that cannot see its process', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const directory = newDirectory();
  const utimes = (): number => statSync(join(directory, 'owner.lock')).mtimeMs;
  const release = holdDirectory(directory);
  const first = utimes();
  vi.advanceTimersByTime(5_000);
  expect(utimes()).toBeGreaterThan(first);
  // The lock of another process is left alone.
  lockFromElsewhere(directory);
  const theirs = utimes();
  vi.advanceTimersByTime(5_000);
  expect(utimes()).toBe(theirs);
  release();
  expect(existsSync(join(directory, 'owner.lock'))).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});
