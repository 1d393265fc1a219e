import { findEntries, type Release, type ReleaseNotes } from './changelog-notes.ts';

export const labels = ['summary', 'breaking_changes', 'security'] as const;
export type Label = (typeof labels)[number];

/** Compares versions; newer ones come first. */
export type Order = (a: string, b: string) => number;

/** The values that the blocks should have. */
export type Wanted = Readonly<Record<Label, string>>;

/**
 * The blocks after reading `notes`, given what `memory` holds now. Composing again from the outcome changes
 * nothing.
 */
export function composeMemory(
  notes: ReleaseNotes,
  memory: ReadonlyMap<string, string>,
  order: Order,
): Wanted {
  const found = notes.releases.map((release) => ({ release, ...findEntries(release) }));
  const breaking = found.map(({ release, breaking: entries }) => ({
    version: release.version,
    items: [...listItems(entries), ...(isMajor(release) && entries.length === 0 ? [unexplainedMajor] : [])],
  }));
  const security = found.map(({ release, security: entries }) => ({
    version: release.version,
    items: listItems(entries),
  }));
  const title = `${notes.package} ${notes.line}`;
  return {
    summary: composeSummary(notes, memory.get('summary') ?? '', order),
    breaking_changes: mergeSections(
      `# ${title}: breaking changes`,
      breaking,
      memory.get('breaking_changes') ?? '',
      order,
    ),
    security: mergeSections(`# ${title}: security`, security, memory.get('security') ?? '', order),
  };
}

const unexplainedMajor = '- A new major version; its notes name no breaking change.';
const nothingFound = 'The notes read so far name none.';

function isMajor({ version }: Release): boolean {
  return !version.startsWith('0.') && version.endsWith('.0.0');
}

function listItems(entries: readonly (readonly string[])[]): string[] {
  return entries.flatMap((lines) => lines.map((line, i) => (i === 0 ? `- ${line}` : `  ${line}`)));
}

/**
 * The block with the sections of `read` in the place of those it had for the same versions; its other
 * sections, and what stands before `title`, stay as they are.
 */
function mergeSections(
  title: string,
  read: readonly { version: string; items: readonly string[] }[],
  current: string,
  order: Order,
): string {
  const lines = current.split('\n');
  const at = lines.indexOf(title);
  const before = at === -1 ? lines : lines.slice(0, at);
  const sections = new Map<string, string[]>();
  let section: string[] | undefined;
  for (const line of at === -1 ? [] : lines.slice(at + 1)) {
    if (line.startsWith('## ')) sections.set(line.slice(3), (section = []));
    else if (line !== '') section?.push(line);
  }
  for (const { version, items } of read) {
    if (items.length === 0) sections.delete(version);
    else sections.set(version, [...items]);
  }
  const versions = [...sections.keys()].sort(order);
  const body = versions.flatMap((version) => [`## ${version}`, ...(sections.get(version) ?? [])]);
  const tail = at !== -1 && current.endsWith('\n') ? [''] : [];
  const head = current === '' ? [] : before;
  return [...head, title, ...(body.length === 0 ? [nothingFound] : body), ...tail].join('\n');
}

/** Entries of the latest release that the summary shows, and the length to which it cuts them. */
const highlightCount = 3;
const highlightChars = 200;

const listStart = 'Releases read: ';

/** The versions of the message and those that the summary of the same release line lists. */
export function allVersions(notes: ReleaseNotes, summary: string): string[] {
  const lines = summary.split('\n');
  const isOurs = lines.includes(summaryTitle(notes));
  const list = isOurs ? lines.find((line) => line.startsWith(listStart)) : undefined;
  const known = list?.slice(listStart.length).split(', ') ?? [];
  return [...new Set([...notes.releases.map(({ version }) => version), ...known])];
}

function summaryTitle(notes: ReleaseNotes): string {
  return `# ${notes.package} ${notes.line}`;
}

function composeSummary(notes: ReleaseNotes, current: string, order: Order): string {
  const versions = allVersions(notes, current).sort(order);
  const latest = notes.releases.find(({ version }) => version === versions[0]);
  const list = `${listStart}${versions.join(', ')}`;
  // The latest release came with an earlier message: what the memory says of it stays.
  if (latest === undefined) {
    return current.replace(new RegExp(`^${listStart}.*$`, 'm'), () => list);
  }
  const highlights = findEntries(latest)
    .all.slice(0, highlightCount)
    .map((lines) => `- ${cut(lines.join(' '))}`);
  const date = latest.date === undefined ? '' : ` of ${latest.date}`;
  return [
    summaryTitle(notes),
    `Latest: ${latest.version}${date}`,
    list,
    `What ${latest.version} brings:`,
    ...highlights,
  ].join('\n');
}

function cut(text: string): string {
  const characters = Array.from(text);
  return characters.length > highlightChars ? `${characters.slice(0, highlightChars - 1).join('')}…` : text;
}
