import {
  allVersions,
  composeMemory,
  labels,
  type Label,
  type Order,
  type Wanted,
} from './changelog-blocks.ts';
import { edits, readMemory, rewrites, type PlannedCall } from './changelog-memory.ts';
import { readReleaseNotes, type ReleaseNotes } from './changelog-notes.ts';
import { parseObject, readCalls, textOf, type PastCall } from './changelog-transcript.ts';
import type { ModelScript, ScriptReply } from './script.ts';

/**
 * A model that reads release notes and keeps three memory blocks about them, by extraction: every line it
 * writes stands in the notes, or was in its memory before. It needs nothing but the request: the last
 * `<release_notes>` of the conversation, the memory that the system prompt shows, and the outcomes of its own
 * calls since then.
 *
 * Turn by turn: `compare_versions`, where that tool is offered, else the summary; then every block that
 * changes, in parallel; then one sentence. A write that was refused is tried with every other tool that can
 * do it. Releases that the memory knows and the message does not mention stay; a memory that is up to date is
 * not written.
 */
export const changelogScript: ModelScript = ({ params }) => {
  const asked = params.messages.findLastIndex((message) => readReleaseNotes(textOf(message)) !== undefined);
  const notes = readReleaseNotes(textOf(params.messages[asked]));
  if (notes === undefined || notes.releases.length === 0) {
    return say('The message holds no release notes, so the memory stays as it is.');
  }
  const calls = readCalls(params.messages.slice(asked + 1));
  const offered = new Set((params.tools ?? []).map((tool) => tool.name));
  const memory = readMemory(params.system);
  if (offered.has('compare_versions') && !calls.some(({ name }) => name === 'compare_versions')) {
    const versions = allVersions(notes, memory?.get('summary') ?? '');
    return use([{ name: 'compare_versions', input: { versions } }], 'I sort the versions first.');
  }

  const order = readOrder(calls);
  const wanted = composeMemory(notes, memory ?? new Map<string, string>(), order);
  const open = labels.flatMap((label) => {
    const past = calls.filter((call) => call.label === label);
    const isWritten = past.some(({ outcome }) => outcome?.failed === false);
    if (isWritten || memory?.get(label) === wanted[label]) return [];
    const isRefused = past.some(({ outcome }) => outcome !== undefined && isFinal(outcome.text));
    const isAbsent = memory?.has(label) === false;
    if (isRefused || isAbsent) return [{ label, next: undefined }];
    const ways = waysToWrite(label, memory?.get(label), wanted[label], offered, fingerprint(notes, label));
    return [{ label, next: ways.find((way) => !past.some(({ name }) => name === way.name)) }];
  });

  const writes = open.flatMap(({ next }) => (next === undefined ? [] : [next]));
  if (writes.length === 0) {
    const unwritten = open.map(({ label }) => label);
    return say(report(notes, wanted, order, unwritten));
  }
  const summaryFirst = calls.length === 0 && open[0]?.label === 'summary' && open[0].next !== undefined;
  return use(summaryFirst ? writes.slice(0, 1) : writes);
};

function say(text: string): ScriptReply {
  return { content: [{ type: 'text', text }], stop_reason: 'end_turn' };
}

function use(calls: readonly PlannedCall[], text?: string): ScriptReply {
  const uses = calls.map(({ name, input }) => ({ type: 'tool_use', name, input }));
  return {
    content: [...(text === undefined ? [] : [{ type: 'text', text }]), ...uses],
    stop_reason: 'tool_use',
  };
}

/** Another way of writing does not help against these. */
function isFinal(text: string): boolean {
  return text.includes('read-only') || /\bblock\b.*\bdoes not exist/i.test(text);
}

/**
 * The calls that write a block, best first, of the tools in `offered`. The summary, and a block that we
 * cannot see, are written as a whole if possible; the others by the smallest change. `pick` chooses among
 * equal changes.
 */
function waysToWrite(
  label: Label,
  current: string | undefined,
  wanted: string,
  offered: ReadonlySet<string>,
  pick: number,
): PlannedCall[] {
  const isOffered = ({ name }: PlannedCall) => offered.has(name);
  const changes = edits(label, current ?? '', wanted).filter(isOffered);
  const whole = rewrites(label, wanted).filter(isOffered);
  if (label === 'summary' || current === undefined) return [...whole, ...changes];
  const first = pick % Math.max(1, changes.length);
  return [...changes.slice(first), ...whole, ...changes.slice(0, first)];
}

/** A number that is the same in every turn of a conversation and differs between packages and blocks. */
function fingerprint(notes: ReleaseNotes, label: Label): number {
  const text = `${notes.package} ${notes.line} ${label} ${notes.releases[0]?.version ?? ''}`;
  return Array.from(text).reduce(
    (sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521,
    7,
  );
}

/**
 * Newest first, as `compare_versions` sorted them; versions it did not see, or all if it failed, by their
 * numbers.
 */
function readOrder(calls: readonly PastCall[]): Order {
  const outcome = calls.find(({ name }) => name === 'compare_versions')?.outcome;
  const sorted = outcome?.failed === false ? parseObject(outcome.text)?.sorted : undefined;
  const ranks = new Map(
    (Array.isArray(sorted) ? sorted : []).map((version, rank) => [version as unknown, rank]),
  );
  return (a, b) => {
    const [left, right] = [ranks.get(a), ranks.get(b)];
    return left !== undefined && right !== undefined ? right - left : byNumbers(b, a);
  };
}

function byNumbers(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => (version.split(/[-+]/)[0] ?? '').split('.').map(Number));
  for (let i = 0; i < 3; i += 1) {
    const difference = (left?.[i] ?? 0) - (right?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  // A prerelease comes before its release.
  return Number(b.includes('-')) - Number(a.includes('-')) || (a < b ? -1 : Number(a > b));
}

function report(notes: ReleaseNotes, wanted: Wanted, order: Order, unwritten: readonly Label[]): string {
  const versions = notes.releases.map(({ version }) => version).sort(order);
  const named = (label: Label) => wanted[label].split('\n').filter((line) => line.startsWith('## ')).length;
  const sentence =
    `Read ${count(versions.length, 'release')} of ${notes.package} ${notes.line} up to ${versions[0] ?? ''}; on record are ` +
    `breaking changes in ${count(named('breaking_changes'), 'release')} and security entries in ${count(named('security'), 'release')}.`;
  return unwritten.length === 0 ? sentence : `${sentence} I could not write ${unwritten.join(' and ')}.`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
