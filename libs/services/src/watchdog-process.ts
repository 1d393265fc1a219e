import { BEAT_MS, readLock, touchLock } from './directory-lock.ts';
import { processIdentity } from './process-identity.ts';

// Started by watchdog.ts as `node watchdog-process.ts <identity of the server> [lock file]`, with a pipe from the server's
// owner as standard input. The pipe closes at the owner's end, even by SIGKILL; the server then gets a SIGINT, unless the
// owner has sent a release. While the server runs, the lock is touched, so that no other container takes the directory.

const [, , identity = '', lockFile = ''] = process.argv;
const pid = Number.parseInt(identity, 10);
const isRunning = (): boolean => processIdentity(pid) === identity;
const lock = lockFile === '' ? undefined : readLock(lockFile);
let released = false;

const beating = setInterval(() => {
  if (!isRunning()) clearInterval(beating);
  else if (lock !== undefined) touchLock(lockFile, lock);
}, BEAT_MS);

process.stdin.on('data', () => {
  released = true;
});
process.stdin.on('close', () => {
  if (!released && isRunning()) process.kill(pid, 'SIGINT');
  else clearInterval(beating);
});
