import { BEAT_MS, readLock, touchLock } from './directory-lock.ts';
import { processIdentity } from './process-identity.ts';

// Started by watchdog.ts as `node watchdog-process.ts <identity of the server> [lock file]`, with a pipe from the process
// that owns the server as its input. The pipe closes when that process ends in whatever way, SIGKILL included; the server
// is then asked to stop, unless the owner has said before that it stopped the server itself. Until the server has ended
// the lock is touched, so that nobody in another container takes the directory for free.

const [, , identity = '', lockFile = ''] = process.argv;
const pid = Number.parseInt(identity, 10);
const isThere = (): boolean => processIdentity(pid) === identity;
const lock = lockFile === '' ? undefined : readLock(lockFile);
let released = false;

const beating = setInterval(() => {
  if (!isThere()) clearInterval(beating);
  else if (lock !== undefined) touchLock(lockFile, lock);
}, BEAT_MS);

process.stdin.on('data', () => {
  released = true;
});
process.stdin.on('close', () => {
  if (!released && isThere()) process.kill(pid, 'SIGINT');
  else clearInterval(beating);
});
