import type { Expected, Fact, MemoryLabel, Sample } from './sample.ts';

export interface MissingFact {
  custom_id: string;
  label: MemoryLabel;
  fact: string;
}

export interface MemoryCheck {
  /** Number of expected facts. */
  checked: number;
  /** Facts that the memory lacks, in the order of `expected`. */
  missing: MissingFact[];
}

/**
 * Looks for every expected fact of `samples` in its memory block. A sample without memories misses all of its
 * facts. Versions and advisory numbers must stand alone: `1.2.1` is not found in `1.2.10`.
 * Throws when a sample has no row in `expected`: nothing would be checked.
 */
export function checkMemories(
  samples: readonly Pick<Sample, 'custom_id'>[],
  expected: readonly Expected[],
  memories: ReadonlyMap<string, Readonly<Record<string, string>>>,
): MemoryCheck {
  const rows = new Map(expected.map((row) => [row.custom_id, row]));
  const check: MemoryCheck = { checked: 0, missing: [] };
  for (const { custom_id } of samples) {
    const row = rows.get(custom_id);
    if (row === undefined)
      throw new Error(`${custom_id}: has no expected facts. Restore samples/changelogs/expected.jsonl.`);
    for (const fact of row.facts) {
      check.checked += 1;
      if (holds(memories.get(custom_id)?.[fact.label] ?? '', fact)) continue;
      check.missing.push({ custom_id, label: fact.label, fact: fact.fact });
    }
  }
  return check;
}

function holds(value: string, { kind, fact }: Fact): boolean {
  if (kind === 'breaking' || kind === 'security') return value.includes(fact);
  for (let at = value.indexOf(fact); at !== -1; at = value.indexOf(fact, at + 1)) {
    const before = value.slice(0, at);
    const after = value.slice(at + fact.length);
    if (!/[\w-]$|\d\.$/.test(before) && !/^(?:\w|[.-]\w)/.test(after)) return true;
  }
  return false;
}
