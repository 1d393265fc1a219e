/** The notes of one release as the message gives them. */
export interface Release {
  readonly version: string;
  readonly date: string | undefined;
  readonly lines: readonly string[];
}

export interface ReleaseNotes {
  readonly package: string;
  /** The release line, such as `4.x`. */
  readonly line: string;
  readonly releases: readonly Release[];
}

/**
 * What one release says, each entry as the lines of one list item or paragraph, markers and indentation
 * removed.
 */
export interface Findings {
  readonly breaking: readonly string[][];
  readonly security: readonly string[][];
  readonly all: readonly string[][];
}

const openNotes = '<release_notes ';
const openRelease = '<release ';

/** Reads the `<release_notes>` element of a message; `undefined` when it holds none. */
export function readReleaseNotes(message: string): ReleaseNotes | undefined {
  const lines = message.split('\n');
  const start = lines.findLastIndex((line) => line.startsWith(openNotes));
  if (start === -1) return undefined;
  const attributes = readAttributes(lines[start] ?? '');
  const releases: Release[] = [];
  let body: string[] | undefined;
  for (const line of lines.slice(start + 1)) {
    if (line.startsWith(openRelease)) {
      const { version, date } = readAttributes(line);
      body = [];
      if (version !== undefined) releases.push({ version, date, lines: body });
    } else if (line === '</release>') {
      body = undefined;
    } else if (line === '</release_notes>') {
      break;
    } else {
      body?.push(line.replaceAll('\t', ' '));
    }
  }
  return { package: attributes.package ?? 'the package', line: attributes.line ?? '', releases };
}

function readAttributes(tag: string): Record<string, string | undefined> {
  const parts = tag.split('"');
  const attributes: Record<string, string> = {};
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const name = parts[i]?.split(' ').at(-1)?.replace('=', '');
    if (name !== undefined && name !== '') attributes[name] = parts[i + 1] ?? '';
  }
  return attributes;
}

type Topic = 'breaking' | 'security' | 'other';

/** Depth of a title without markup: below every `######`. */
const bareTitleDepth = 7;

/**
 * Sorts the entries of one release. An entry belongs to a topic when a heading above it names the topic or
 * when the entry itself does: breaking changes and commits marked `!:`; the words security, vulnerability,
 * ReDoS and prototype pollution, and CVE and GHSA numbers.
 */
export function findEntries(release: Release): Findings {
  const findings = { breaking: [] as string[][], security: [] as string[][], all: [] as string[][] };
  const above: { depth: number; topic: Topic }[] = [];
  let entry: string[] | undefined;

  const close = () => {
    if (entry === undefined) return;
    const topics = above.map(({ topic }) => topic);
    findings.all.push(entry);
    if (topics.includes('breaking') || entry.some(namesBreaking)) findings.breaking.push(entry);
    if (topics.includes('security') || entry.some(namesSecurity)) findings.security.push(entry);
    entry = undefined;
  };

  for (const [i, line] of release.lines.entries()) {
    const text = line.trim();
    const title = readTitle(line, release.lines[i - 1], release.lines[i + 1]);
    if (title !== undefined) {
      close();
      while ((above.at(-1)?.depth ?? 0) >= title.depth) above.pop();
      above.push(title);
      // A title may itself name an advisory, or be a paragraph of a few words.
      if (namesAdvisory(text)) findings.security.push([text.replace(/^#+\s*/, '')]);
    } else if (text === '') {
      close();
    } else {
      const item = withoutMarker(text);
      if (item === undefined) (entry ??= []).push(text);
      else {
        close();
        entry = [item];
      }
    }
  }
  close();
  return findings;
}

/** `#` headings, topics that stand alone on a line, and short lines between blank ones or before a list. */
function readTitle(line: string, before = '', after = ''): { depth: number; topic: Topic } | undefined {
  const text = line.trim();
  const marks = text.length - text.replace(/^#+/, '').length;
  const words = wordsOf(text);
  const topic = topicOf(words);
  if (marks > 0 && marks <= 6 && text[marks] === ' ') return { depth: marks, topic };
  if (withoutMarker(text) !== undefined || words.length === 0) return undefined;
  const isTopic = topic === 'breaking' ? words.indexOf('breaking') <= 1 : words[0] === 'security';
  if (topic !== 'other' && words.length <= 3 && isTopic) return { depth: bareTitleDepth, topic };
  const isShort = line.length <= 40 && line.startsWith(text[0] ?? ' ') && words.length <= 4;
  const leadsList = withoutMarker(after.trim()) !== undefined || after.trim() === '';
  const isNamed = text.endsWith(':') || text.endsWith('**');
  return isShort && before.trim() === '' && leadsList && isNamed
    ? { depth: bareTitleDepth, topic }
    : undefined;
}

/** The text of a list item, or `undefined` when the line is none. */
function withoutMarker(text: string): string | undefined {
  const [marker = '', ...rest] = text.split(' ');
  const isMarker = ['-', '*', '+'].includes(marker) || /^\d{1,9}[.)]$/.test(marker);
  return isMarker && rest.length > 0 ? rest.join(' ').trim() : undefined;
}

function wordsOf(text: string): string[] {
  return text
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

const negations = new Set(['no', 'non', 'not', 'any', 'without']);

function topicOf(words: readonly string[]): Topic {
  if (positionsOfBreaking(words).length > 0) return 'breaking';
  return words.includes('security') ? 'security' : 'other';
}

/** Where `words` say breaking and do not deny it. */
function positionsOfBreaking(words: readonly string[]): number[] {
  return [...words.keys()].filter((i) => {
    if (words[i] !== 'breaking') return false;
    const previous = words[i - 1] ?? '';
    const denied = previous === 'a' || previous === 'an' ? words[i - 2] === 'not' : negations.has(previous);
    return !denied;
  });
}

function namesBreaking(line: string): boolean {
  const words = wordsOf(line);
  const positions = positionsOfBreaking(words);
  const shouted = line.split(/[^A-Za-z]+/).includes('BREAKING');
  if (positions.length > 0 && (shouted || positions.some((i) => words[i + 1]?.startsWith('change') === true)))
    return true;
  const mark = line.indexOf('!:');
  return mark > 0 && isCommitType(line.slice(0, mark).replaceAll('*', ''));
}

/** `feat`, `fix(scope)`. */
function isCommitType(head: string): boolean {
  const [type = '', ...scope] = head.split('(');
  return (
    /^[a-z]+$/.test(type) && (scope.length === 0 || (scope.length === 1 && scope[0]?.endsWith(')') === true))
  );
}

function namesSecurity(line: string): boolean {
  const lower = line.toLowerCase();
  const words = wordsOf(line);
  // A header such as Content-Security-Policy is a feature, not a finding.
  const standsAlone = lower.split(/[^a-z0-9_-]+/).includes('security');
  const pollution = words.some((word, i) => word === 'prototype' && words[i + 1] === 'pollution');
  return (
    standsAlone || lower.includes('vulnerab') || words.includes('redos') || pollution || namesAdvisory(line)
  );
}

/** CVE-2024-12345, GHSA-xxxx-xxxx-xxxx. */
function namesAdvisory(line: string): boolean {
  return line.split(/[^A-Za-z0-9-]+/).some((token) => {
    const [kind, ...parts] = token.split('-');
    if (kind === 'CVE') return parts.length === 2 && parts.every((part) => /^\d{4,}$/.test(part));
    return kind === 'GHSA' && parts.length === 3 && parts.every((part) => part.length === 4);
  });
}
