import { expect, test } from 'vitest';
import { changelogScript } from '../../apps/simulator/src/scripts/changelog.ts';
import { checkMemories } from '../../scripts/samples/check.ts';
import { buildPrompt } from '../../scripts/samples/prompt.ts';
import { readExpected, readSamples } from '../../scripts/samples/sample.ts';
import { emptyMemory, runAgent, type LoopResult } from './memory-loop.ts';

const samples = readSamples();
const expected = readExpected();
const firstRuns = new Map<string, LoopResult>(
  samples.map((sample) => [sample.custom_id, runAgent(changelogScript, buildPrompt(sample), emptyMemory())]),
);

function memoriesOf(runs: ReadonlyMap<string, LoopResult>): Map<string, Record<string, string>> {
  return new Map([...runs].map(([id, run]) => [id, run.memory]));
}

function toolsUsed(runs: Iterable<LoopResult>): Set<string> {
  return new Set([...runs].flatMap((run) => run.calls.map((call) => call.name)));
}

test('every expected fact of every sample is in the memory after the run', () => {
  const { checked, missing } = checkMemories(samples, expected, memoriesOf(firstRuns));
  expect(missing).toEqual([]);
  expect(checked).toBeGreaterThan(samples.length);
});

test('every agent takes at least three steps, writes blocks in parallel, and no call fails', () => {
  for (const [id, run] of firstRuns) {
    expect(run.steps, id).toBeGreaterThanOrEqual(3);
    expect(Math.max(...run.widths), id).toBeGreaterThanOrEqual(2);
    expect(
      run.calls.every((call) => !call.failed),
      id,
    ).toBe(true);
    expect(run.text, id).toMatch(/^Read \d+ releases of .+\.$/);
  }
  expect([...firstRuns.values()].reduce((sum, run) => sum + run.steps, 0)).toBeGreaterThanOrEqual(900);
});

test('nothing is written that the notes do not say', () => {
  for (const sample of samples) {
    const said = sample.notes.map((note) => note.text.replaceAll('\t', ' ')).join('\n');
    const { breaking_changes = '', security = '' } = firstRuns.get(sample.custom_id)?.memory ?? {};
    for (const line of `${breaking_changes}\n${security}`.split('\n')) {
      const isFrame = /^#|^$|^- A new major version;|^The notes read so far name none\.$/.test(line);
      if (!isFrame) expect(said, sample.custom_id).toContain(line.replace(/^- |^ {2}/, ''));
    }
  }
});

test('a second run over the same notes writes nothing', () => {
  for (const sample of samples) {
    const first = firstRuns.get(sample.custom_id);
    const second = runAgent(changelogScript, buildPrompt(sample), first?.memory ?? {}, { lineNumbers: true });
    expect(second.memory, sample.custom_id).toEqual(first?.memory);
    expect(second.calls.map((call) => call.name)).toEqual(['compare_versions']);
  }
});

test('the memory of the evening before plus the new release is the memory of all releases', () => {
  const evening = new Map<string, LoopResult>();
  const night = new Map<string, LoopResult>();
  for (const sample of samples) {
    const before = runAgent(changelogScript, buildPrompt(sample, { withoutLatest: true }), emptyMemory());
    const after = runAgent(changelogScript, buildPrompt(sample), before.memory, { history: before.messages });
    evening.set(sample.custom_id, before);
    night.set(sample.custom_id, after);
    for (const [label, value] of Object.entries(firstRuns.get(sample.custom_id)?.memory ?? {})) {
      expect(after.memory[label]?.trim(), `${sample.custom_id} ${label}`).toBe(value.trim());
    }
    expect(after.steps, sample.custom_id).toBeGreaterThanOrEqual(3);
  }
  expect(checkMemories(samples, expected, memoriesOf(evening)).missing.length).toBeGreaterThanOrEqual(
    samples.length,
  );
  expect(checkMemories(samples, expected, memoriesOf(night)).missing).toEqual([]);
  expect([...toolsUsed([...evening.values(), ...night.values()])].sort()).toEqual([
    'compare_versions',
    'core_memory_append',
    'memory_insert',
    'memory_replace',
    'memory_rethink',
  ]);
});

test('the tools of an older agent do as well', () => {
  const tools = ['rethink_memory', 'core_memory_append', 'core_memory_replace'];
  const runs = new Map(
    samples.map((sample) => [
      sample.custom_id,
      runAgent(changelogScript, buildPrompt(sample), emptyMemory(), { tools, lineNumbers: true }),
    ]),
  );
  expect(checkMemories(samples, expected, memoriesOf(runs)).missing).toEqual([]);
  for (const run of runs.values()) expect(run.widths).toEqual([1, 2]);
});
