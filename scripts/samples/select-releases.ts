import type { ReleaseNote, Sample } from './sample.ts';

/** Bounds of one agent's notes and of one package's share. */
const limits = { releases: 6, chars: 3_200, minimumReleases: 2, minimumChars: 350, samplesPerPackage: 4 };

/** What makes a window worth reading for the memory blocks. */
const telling = /\bbreaking\b|\bsecurity\b|vulnerab|prototype pollution|\bCVE-/i;

/**
 * Cuts the releases of one package into the work of agents: releases are grouped by release line (the major
 * version) and each line is cut, newest release first, into windows of at most 6 consecutive releases and 3.2
 * kB. A window with one release, or with hardly any text, is passed over. A package gives at most 4: its
 * newest window, then those that speak of breaking changes or security, then the others, each newest first.
 */
export function selectSamples(pkg: {
  name: string;
  license: string;
  releases: readonly ReleaseNote[];
}): Sample[] {
  const lines = new Map<number, ReleaseNote[]>();
  for (const release of pkg.releases) {
    const major = Number.parseInt(release.version, 10);
    lines.set(major, [...(lines.get(major) ?? []), release]);
  }
  const windows = [...lines]
    .sort(([a], [b]) => b - a)
    .flatMap(([major, releases]) =>
      cutWindows(releases.toSorted(newestFirst)).map((notes) => ({ line: `${major}.x`, notes })),
    );

  const rank = ({ notes }: { notes: ReleaseNote[] }, age: number): number =>
    age === 0 ? 0 : notes.some((note) => telling.test(note.text)) ? 1 : 2;
  return windows
    .map((window, age) => ({ ...window, age, rank: rank(window, age) }))
    .sort((a, b) => a.rank - b.rank || a.age - b.age)
    .slice(0, limits.samplesPerPackage)
    .sort((a, b) => a.age - b.age)
    .map(({ line, notes }) => toSample(pkg, line, notes));
}

function cutWindows(releases: readonly ReleaseNote[]): ReleaseNote[][] {
  const windows: ReleaseNote[][] = [];
  let window: ReleaseNote[] = [];
  let size = 0;
  for (const release of releases) {
    if (
      window.length > 0 &&
      (window.length === limits.releases || size + release.text.length > limits.chars)
    ) {
      windows.push(window);
      window = [];
      size = 0;
    }
    window.push(release);
    size += release.text.length;
  }
  windows.push(window);
  return windows.filter(
    (notes) =>
      notes.length >= limits.minimumReleases &&
      notes.reduce((sum, note) => sum + note.text.length, 0) >= limits.minimumChars,
  );
}

function toSample(pkg: { name: string; license: string }, line: string, notes: ReleaseNote[]): Sample {
  const to = notes[0]?.version ?? '';
  const from = notes.at(-1)?.version ?? '';
  const slug = pkg.name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '');
  return {
    custom_id: `${slug}_${to.replaceAll('.', '-')}`,
    package: pkg.name,
    line,
    from,
    to,
    license: pkg.license,
    notes,
  };
}

/** The order of `x.y.z` versions, newest first. */
function newestFirst(a: ReleaseNote, b: ReleaseNote): number {
  const [left, right] = [a, b].map((note) => note.version.split('.').map(Number));
  for (let i = 0; i < 3; i += 1) {
    const difference = (right?.[i] ?? 0) - (left?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
