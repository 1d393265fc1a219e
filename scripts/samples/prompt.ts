import { planCalls } from './plan.ts';
import { memoryLabels, type MemoryLabel, type ReleaseNote, type Sample } from './sample.ts';

/** System prompt of all sample agents; the memory blocks follow it. */
export const systemPrompt = [
  'You keep the release memory of one npm package. You are given release notes and rewrite your memory blocks:',
  '- summary: which releases you have read, which is the latest, and what it brings.',
  '- breaking_changes: per release, every breaking change the notes name, in their own words.',
  '- security: per release, every security entry the notes name, in their own words, with CVE and GHSA numbers.',
  'Use compare_versions to find the latest version. Copy, do not paraphrase. Keep what you know of releases that the',
  'message does not speak of. Write a block only if it changes, and say in one sentence what you did when you are done.',
].join('\n');

export const blockDescriptions: Readonly<Record<MemoryLabel, string>> = {
  summary: 'Releases read, the latest of them, and what it brings.',
  breaking_changes: 'Breaking changes per release, newest first, as the notes word them.',
  security: 'Security entries per release, newest first, with their CVE and GHSA numbers.',
};

/** Tools of a sample agent. `compare_versions` is the module tool in samples/tools. */
export const toolNames = [
  'compare_versions',
  'memory_rethink',
  'memory_insert',
  'memory_replace',
  'core_memory_append',
] as const;

export interface PromptOptions {
  /** Appends the calls that the simulated model makes. Default: true. */
  forSimulator?: boolean;
  /** Leaves out the newest release, as on the evening before it appeared. Default: false. */
  withoutLatest?: boolean;
}

/** Returns a sample agent's empty blocks, in the order of `memoryLabels`. */
export function buildBlocks(): { label: MemoryLabel; description: string; value: string }[] {
  return memoryLabels.map((label) => ({ label, description: blockDescriptions[label], value: '' }));
}

/** Builds the user message with the release notes. */
export function buildPrompt(sample: Sample, options: PromptOptions = {}): string {
  const notes = options.withoutLatest === true ? sample.notes.slice(1) : sample.notes;
  return [
    `These are release notes of ${sample.package}, release line ${sample.line}. Bring your memory up to date.`,
    '',
    `<release_notes package="${sample.package}" line="${sample.line}">`,
    ...notes.map(renderRelease),
    '</release_notes>',
    ...(options.forSimulator === false
      ? []
      : planCalls(sample, options.withoutLatest === true).map((call) => JSON.stringify(call))),
  ].join('\n');
}

function renderRelease(note: ReleaseNote): string {
  const date = note.date === undefined ? '' : ` date="${note.date}"`;
  return `<release version="${note.version}"${date}>\n${note.text}\n</release>`;
}
