import type { ReleaseNote } from './sample.ts';

const fence = /^\s{0,3}(```|~~~)/;
const underline = /^(={3,}|-{3,})\s*$/;
const title = /^#{1,4}\s+(.*)$/;
const anchor = /<a\s[^>]*>\s*(<\/a>)?/g;
const versionAtStart =
  /^(?:version\s+|release\s+)?v?\.?\s?(\d+\.\d+(?:\.\d+)?(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)(?![\w.])/i;
const unreleased = /^(unreleased|master|development|upcoming|next|not yet released|head)\b/i;
const thanks =
  /^(#{1,6}\s+|\*\*)[^\p{L}]*(new\s+)?(contributors?|committers?|credits|thanks|special thanks)\b/iu;
const linkDefinition = /^\s{0,3}\[[^\]]+\]:\s+\S+/;

/** Characters of one release's notes that are kept at most; the excerpt ends at the line before. */
const noteLimitChars = 1_800;
/** Notes shorter than this say nothing worth reading ("version bump"). */
const noteMinimumChars = 24;

/**
 * Reads the releases of a changelog in the order of the file. A release starts at a heading (`#`, underlined)
 * whose title starts with a version and ends at the next one; headings inside code fences are none. Kept are
 * final releases `x.y.z` with notes; of a version that is named twice the first section. The list of
 * contributors at the end of a section and trailing link definitions are left out. The rest of the text is
 * verbatim.
 */
export function parseChangelog(file: string): ReleaseNote[] {
  const lines = file.replaceAll('\r\n', '\n').split('\n');
  const releases: ReleaseNote[] = [];
  const seen = new Set<string>();
  let current: { heading: string; version: string; body: string[] } | undefined;
  let fenced = false;

  const close = () => {
    if (current === undefined) return;
    const note = toNote(current.heading, current.version, current.body);
    if (note !== undefined && !seen.has(note.version)) {
      seen.add(note.version);
      releases.push(note);
    }
    current = undefined;
  };

  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i] ?? '';
    if (fence.test(line)) fenced = !fenced;
    const isUnderlined = underline.test(lines[i + 1] ?? '');
    const heading = fenced ? undefined : (title.exec(line)?.[1] ?? (isUnderlined ? line : undefined));
    const text = heading === undefined ? '' : plainTitle(heading);
    const version = versionAtStart.exec(text)?.[1];
    if (heading !== undefined && (version !== undefined || unreleased.test(text))) {
      close();
      if (version !== undefined) current = { heading: text, version, body: [] };
      if (isUnderlined) i += 1;
    } else {
      current?.body.push(line);
    }
  }
  close();
  return releases;
}

function plainTitle(heading: string): string {
  return heading
    .replaceAll(anchor, '')
    .replaceAll(/[*[\]]/g, '')
    .trim();
}

function toNote(heading: string, version: string, body: string[]): ReleaseNote | undefined {
  if (!/^\d+\.\d+\.\d+$/.test(version)) return undefined;
  const end = body.findIndex((line) => thanks.test(line));
  const kept = dropLeadingBlank(end === -1 ? body : body.slice(0, end));
  while (kept.length > 0 && isTail(kept.at(-1) ?? '')) kept.pop();

  const text = kept.join('\n');
  if (text.length < noteMinimumChars || !isStorable(text)) return undefined;
  const excerpt = text.length > noteLimitChars ? shorten(kept) : text;
  if (excerpt === '') return undefined;
  const date = readDate(heading);
  return {
    version,
    ...(date !== undefined && { date }),
    text: excerpt,
    ...(excerpt.length < text.length && { shortened: true as const }),
  };
}

function dropLeadingBlank(lines: string[]): string[] {
  const first = lines.findIndex((line) => line.trim() !== '');
  return first === -1 ? [] : lines.slice(first);
}

function isTail(line: string): boolean {
  return (
    line.trim() === '' ||
    linkDefinition.test(line) ||
    /^<a\s[^>]*><\/a>\s*$/.test(line) ||
    /^-{3,}\s*$/.test(line)
  );
}

/** Whole lines up to the limit; a fence that the cut left open takes its lines with it. */
function shorten(lines: string[]): string {
  let size = 0;
  const kept: string[] = [];
  for (const line of lines) {
    size += line.length + 1;
    if (size > noteLimitChars) break;
    kept.push(line);
  }
  const fences = kept.flatMap((line, i) => (fence.test(line) ? [i] : []));
  if (fences.length % 2 === 1) kept.length = fences.at(-1) ?? 0;
  return kept.join('\n').trimEnd();
}

/** Text that Postgres can hold and that cannot be taken for the frame of the prompt. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0') && !/^<\/?release/m.test(text);
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** The date of a release heading: `2022-10-08`, `2022/10/8`, `26 June, 2026` or `October 5th, 2026`. */
function readDate(heading: string): string | undefined {
  const iso = /\b((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})\b/.exec(heading);
  if (iso !== null) return toIsoDate(iso[1], iso[2], iso[3]);
  const dayFirst = /\b(\d{1,2})(?:st|nd|rd|th)?\s+([a-z]{3})[a-z]*\.?,?\s+((?:19|20)\d\d)\b/i.exec(heading);
  if (dayFirst !== null) return toIsoDate(dayFirst[3], monthNumber(dayFirst[2]), dayFirst[1]);
  const monthFirst = /\b([a-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+((?:19|20)\d\d)\b/i.exec(heading);
  return monthFirst === null
    ? undefined
    : toIsoDate(monthFirst[3], monthNumber(monthFirst[1]), monthFirst[2]);
}

function monthNumber(name: string | undefined): string {
  return String(months.indexOf((name ?? '').toLowerCase()) + 1);
}

/** `undefined` when the numbers are no day of the calendar. */
function toIsoDate(year = '', month = '', day = ''): string | undefined {
  const text = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const time = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text) ? text : undefined;
}
