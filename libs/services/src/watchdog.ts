import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { processIdentity } from './process-identity.ts';

/**
 * Starts a process that sends the server `pid` a SIGINT when this process ends, even by SIGKILL. Returns a function that
 * dismisses it. The watchdog does not keep this process alive, and never signals another process with the same pid.
 *
 * While the server runs, the watchdog also touches `lockFile`, since this process may be frozen or dead.
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
  // Without a watchdog the server survives a SIGKILL, and the next start ends it.
  watchdog.on('error', () => undefined);
  watchdog.stdin.on('error', () => undefined);
  watchdog.unref();
  (watchdog.stdin as unknown as { unref?: () => void }).unref?.();
  return () => watchdog.stdin.end('released');
}
