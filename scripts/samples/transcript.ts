import { memoryLabels, type MemoryLabel, type ReleaseNote, type Sample } from './sample.ts';

/** System prompt of all sample agents; the memory blocks follow it. */
export const systemPrompt = [
  'You advise on one npm package. People tell you of its releases, and ask you later whether they can upgrade:',
  'which release is the latest, which changes break their code, and which releases repair a security problem.',
].join('\n');

/** What the agents keep; the simulated model looks for the phrases in parentheses. */
export const blockDescriptions: Readonly<Record<MemoryLabel, string>> = {
  summary: 'The latest release, and what it brings.',
  breaking_changes: 'Breaking changes of each release, in the words of its notes (breaking, !:).',
  security:
    'Security entries of each release, in the words of its notes (security, vulnerab, ReDoS, prototype pollution, CVE-, GHSA-).',
};

/** Wishes for the rewrite of all agents. */
export const rewriteInstruction =
  'Copy breaking changes and security entries in the words of the notes, with version, CVE and GHSA numbers.';

/** A message of a sample's transcript. */
export interface TranscriptMessage {
  readonly role: 'user' | 'assistant';
  readonly name?: string;
  readonly content: string;
  /** ISO time. */
  readonly said_at?: string;
  readonly otid: string;
}

/** Returns a sample agent's empty blocks, in the order of `memoryLabels`. */
export function buildBlocks(): { label: MemoryLabel; description: string; value: string }[] {
  return memoryLabels.map((label) => ({ label, description: blockDescriptions[label], value: '' }));
}

/** Builds the messages about releases, oldest first: a user tells of each, and the agent answers. */
export function buildTranscript(sample: Sample, notes: readonly ReleaseNote[]): TranscriptMessage[] {
  return notes.toReversed().flatMap((note): TranscriptMessage[] => {
    const said = note.date === undefined ? {} : { said_at: `${note.date}T12:00:00Z` };
    const otid = `${sample.package}@${note.version}`;
    return [
      { role: 'user', name: 'releases', content: announce(sample, note), ...said, otid },
      { role: 'assistant', content: `Noted: ${note.version}.`, ...said, otid: `${otid}/noted` },
    ];
  });
}

function announce({ package: name }: Sample, { version, text }: ReleaseNote): string {
  const isMajor = /^[1-9]\d*\.0\.0$/.test(version);
  return [
    `Latest release: ${name} ${version}`,
    ...(isMajor ? [`${version} is a major version, which may have breaking changes.`] : []),
    text,
  ].join('\n');
}
