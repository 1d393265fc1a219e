import { memoryLabels, readExpected, type Expected, type MemoryLabel, type Sample } from './sample.ts';

/** A call of the simulated model; a parallel call is made in the turn of the call before it. */
export interface PlannedCall {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly parallel?: true;
}

const expectedRows = new Map(readExpected().map((row) => [row.custom_id, row]));
const titles = { breaking_changes: 'breaking changes', security: 'security' };
const nothingFound = 'The notes read so far name none.';

/**
 * Plans an agent's calls: compares the versions, then writes each block that changes. The evening run lacks
 * the newest release and finds empty blocks; the night run finds the evening's.
 */
export function planCalls(sample: Sample, isEvening: boolean): PlannedCall[] {
  const expected = expectedRows.get(sample.custom_id);
  if (expected === undefined) throw new Error(`${sample.custom_id}: has no row in expected.jsonl.`);
  const versions = isEvening ? expected.versions.slice(1) : expected.versions;
  const writes = memoryLabels.flatMap((label) => planWrite(sample, expected, label, isEvening) ?? []);
  return [
    { tool: 'compare_versions', args: { versions } },
    ...writes.map((call, i) => (i === 0 ? call : { ...call, parallel: true as const })),
  ];
}

function planWrite(
  sample: Sample,
  expected: Expected,
  label: MemoryLabel,
  isEvening: boolean,
): PlannedCall | undefined {
  const [newest = '', ...older] = expected.versions;
  if (label === 'summary') {
    const new_memory = summaryOf(sample, isEvening ? older : expected.versions);
    return { tool: 'memory_rethink', args: { label, new_memory } };
  }
  const title = `# ${sample.package} ${sample.line}: ${titles[label]}`;
  const found = older.flatMap((version) => sectionOf(sample, expected, label, version));
  if (isEvening) {
    const text = [title, ...(found.length === 0 ? [nothingFound] : found)].join('\n');
    return label === 'security'
      ? { tool: 'core_memory_append', args: { label, content: text } }
      : { tool: 'memory_insert', args: { label, new_string: text, insert_line: 0 } };
  }
  const section = sectionOf(sample, expected, label, newest).join('\n');
  if (section === '') return undefined;
  return found.length === 0
    ? { tool: 'memory_replace', args: { label, old_string: nothingFound, new_string: section } }
    : { tool: 'memory_insert', args: { label, new_string: section, insert_line: 1 } };
}

function summaryOf({ package: name, line }: Sample, versions: readonly string[]): string {
  return `# ${name} ${line}\nLatest: ${versions[0] ?? ''}\nReleases read: ${versions.join(', ')}`;
}

/** Returns the lines about one release in a block: each line of its notes with an expected fact. */
function sectionOf(sample: Sample, expected: Expected, label: MemoryLabel, version: string): string[] {
  const facts = expected.facts.filter((fact) => fact.label === label && fact.version === version);
  if (facts.length === 0) return [];
  const lines = (sample.notes.find((note) => note.version === version)?.text ?? '').split('\n');
  const items = facts.flatMap(({ kind, fact }) =>
    kind === 'major' ? '- A new major version.' : (lines.find((line) => line.includes(fact)) ?? []),
  );
  const texts = items.map((item) => item.replaceAll('\t', ' ').replace(/^\s*(?:(?:[-*+]|\d+[.)])\s+)?/, ''));
  return [`## ${version}`, ...new Set(texts.map((text) => `- ${text}`))];
}
