import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROGRAMS } from '../../proof/hostile-tools/programs.ts';
import { openHostilePython } from '../../proof/hostile-tools/python-host.ts';
import { PYTHON_PROGRAMS } from '../../proof/hostile-tools/python-programs.ts';
import {
  runHostile,
  startHostileHost,
  warmUp,
  type HostileBounds,
  type HostileHost,
} from '../../proof/hostile-tools/run.ts';

/** The bound allows for a busy machine; `npm run hostile-tools` runs the whole corpus with the real bound. */
const BOUNDS: HostileBounds = { timeout_ms: 200, overtime_ms: 5_000, growth_mb: 96 };
/** The programs of the suite: all that look for a way out, and a part of the others. */
const CHOSEN = PROGRAMS.filter(({ name }, at) => at % 4 === 0 || /^(hunt|import|fetch):/.test(name));

let host: HostileHost;

beforeAll(async () => {
  host = await startHostileHost();
  await warmUp(host, 60);
});

afterAll(() => host.close());

test('the corpus has at least 100 programs, each with a name of its own', () => {
  expect(new Set(PROGRAMS.map(({ name }) => name)).size).toBe(PROGRAMS.length);
  expect(PROGRAMS.length).toBeGreaterThanOrEqual(100);
});

test.each(CHOSEN)('$name ends in time and harms no other call', async (program) => {
  expect((await runHostile(host, program, BOUNDS)).problems).toEqual([]);
});

/** The programs in Python of the suite: all that look for a way out or at the channel, and a part of the others. */
const CHOSEN_PYTHON = PYTHON_PROGRAMS.filter(
  ({ name }, at) => at % 6 === 0 || /^(hunt|channel|kernel|system call|fetch):/.test(name),
);
const python = await openHostilePython().catch((error: unknown) => String(error));
if (typeof python === 'string') process.stderr.write(`Hostile Python is not tested: ${python}\n`);
afterAll(async () => {
  if (typeof python !== 'string') await python.close();
});

test('the corpus of Python has at least 100 programs, each with a name of its own', () => {
  expect(new Set(PYTHON_PROGRAMS.map(({ name }) => name)).size).toBe(PYTHON_PROGRAMS.length);
  expect(PYTHON_PROGRAMS.length).toBeGreaterThanOrEqual(100);
});

test.skipIf(typeof python === 'string').each(CHOSEN_PYTHON)('Python: $name ends in time', async (program) => {
  const { problems } = await runHostile(python as HostileHost, program, { ...BOUNDS, growth_mb: 256 });
  expect(problems).toEqual([]);
});
