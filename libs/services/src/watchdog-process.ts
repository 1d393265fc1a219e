import { processIdentity } from './process-identity.ts';

// Started by watchdog.ts as `node watchdog-process.ts <identity of the server>`, with a pipe from the process that owns
// the server as its input. The pipe closes when that process ends in whatever way, SIGKILL included; the server is then
// asked to stop, unless the owner has said before that it stopped the server itself.

const identity = process.argv[2] ?? '';
const pid = Number.parseInt(identity, 10);
let released = false;

process.stdin.on('data', () => {
  released = true;
});
process.stdin.on('close', () => {
  if (!released && processIdentity(pid) === identity) process.kill(pid, 'SIGINT');
});
