import type { Expected, Fact, ReleaseNote, Sample } from './sample.ts';

const heading = /^\s{0,3}#{1,6}\s/;
const bullet = /^\s*(?:[-*+]|\d+[.)])\s+/;
/** A title without markup: only these words, with emphasis, an icon or a colon around them. */
const bareTitle =
  /^[^a-z]*(?:(?:(?:other|possibly|potentially)[^a-z]+)?breaking(?: api)?(?: changes?)?|security(?: (?:fix(?:es)?|updates?|notes?))?)[^a-z]*$/i;
/** What may be another title; the list of the title before ends here. */
const shortLine = /^\S.{0,40}$/;

const breakingTitle = /\bbreaking\b/i;
const breakingLine = /\bBREAKING\b|\b[Bb]reaking[ -][Cc]hanges?\b/;
const notBreaking = /\b(?:no|non|not|not an?|any|without)[ -]breaking\b/i;
const bangCommit = /^(?:\*\*)?[a-z]+(?:\([^)]*\))?!:/;

/** Not `Content-Security-Policy`, which is the name of a feature. */
const securityLine = /(?<![-\w])security(?![-\w])|vulnerab|\bredos\b|prototype[ -]pollution/i;
const cve = /\bCVE-\d{4}-\d{4,7}\b/g;
const ghsa = /\bGHSA(?:-[0-9a-z]{4}){3}\b/g;

/** Characters of a line that identify it. */
const factLimitChars = 120;

/**
 * Reads out of a sample's notes, line by line, what the agent's memory must hold: the latest version, every
 * `x.0.0`, every line that says breaking and every bullet below a heading that does, every CVE and GHSA
 * number, every line that speaks of security and every bullet below a heading that does.
 *
 * This is the judge of the demo: it shares no code with the simulated model whose work it judges.
 */
export function expectFacts(sample: Sample): Expected {
  const versions = sample.notes.map((note) => note.version);
  const latest = versions.reduce((a, b) => (isNewer(b, a) ? b : a));
  const facts: Fact[] = [{ label: 'summary', kind: 'latest', version: latest, fact: latest }];
  for (const note of sample.notes) facts.push(...factsOfNote(note));
  return { custom_id: sample.custom_id, versions, latest, facts: withoutRepeats(facts) };
}

function factsOfNote({ version, text }: ReleaseNote): Fact[] {
  const facts: Fact[] = [];
  if (/^[1-9]\d*\.0\.0$/.test(version))
    facts.push({ label: 'breaking_changes', kind: 'major', version, fact: version });

  let below: 'breaking_changes' | 'security' | undefined;
  for (const line of text.split('\n')) {
    const isBullet = bullet.test(line);
    const isTitle = heading.test(line) || (!isBullet && bareTitle.test(line));
    if (isTitle) below = topicOf(line);
    else if (!isBullet && shortLine.test(line)) below = undefined;

    const fact = identifyingPart(line.replace(bullet, ''));
    if (fact.length < 3) continue;
    const saysBreaking = (breakingLine.test(line) && !notBreaking.test(line)) || bangCommit.test(fact);
    if (!isTitle && (saysBreaking || (isBullet && below === 'breaking_changes'))) {
      facts.push({ label: 'breaking_changes', kind: 'breaking', version, fact });
    }
    for (const id of [...line.matchAll(cve), ...line.matchAll(ghsa)]) {
      facts.push({ label: 'security', kind: 'advisory', version, fact: id[0] });
    }
    if (!isTitle && (securityLine.test(line) || (isBullet && below === 'security'))) {
      facts.push({ label: 'security', kind: 'security', version, fact });
    }
  }
  return facts;
}

function topicOf(title: string): 'breaking_changes' | 'security' | undefined {
  if (breakingTitle.test(title) && !notBreaking.test(title)) return 'breaking_changes';
  return /\bsecurity\b/i.test(title) ? 'security' : undefined;
}

/** The start of a line up to a tab or the limit, in whole characters. */
function identifyingPart(line: string): string {
  const untabbed = line.trim().split('\t')[0] ?? '';
  return Array.from(untabbed).slice(0, factLimitChars).join('').trim();
}

function isNewer(a: string, b: string): boolean {
  return a.localeCompare(b, 'en', { numeric: true }) > 0;
}

function withoutRepeats(facts: readonly Fact[]): Fact[] {
  const seen = new Set<string>();
  return facts.filter(({ label, fact }) => {
    const key = `${label} ${fact}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
