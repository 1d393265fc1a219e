import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { processIdentity } from './process-identity.ts';

/**
 * Sees to it that the server `pid` gets a SIGINT when this process ends, even by SIGKILL, and returns the function that
 * says that this is no longer needed. A tiny process of its own, because a killed process runs no code; it does not
 * keep this process alive, and it never signals another process that got the same number later.
 *
 * While the server lives it touches `lockFile`, the lock of this process, which may be frozen or dead by then.
 */
export function startWatchdog(pid: number | undefined, lockFile = ''): () => void {
  const identity = pid === undefined ? undefined : processIdentity(pid);
  if (identity === undefined) return () => undefined;
  const script = fileURLToPath(new URL('./watchdog-process.ts', import.meta.url));
  const watchdog = spawn(process.execPath, [script, identity, lockFile], {
    env: {},
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  // Without a watchdog the server runs on after a SIGKILL, and the next start ends it.
  watchdog.on('error', () => undefined);
  watchdog.stdin.on('error', () => undefined);
  watchdog.unref();
  (watchdog.stdin as unknown as { unref?: () => void }).unref?.();
  return () => watchdog.stdin.end('released');
}
