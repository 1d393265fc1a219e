import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Notes of one release. `text` is a verbatim excerpt of the package's changelog with LF line ends. */
export interface ReleaseNote {
  version: string;
  /** ISO date in the heading, if there is one. */
  date?: string;
  text: string;
  /** Whether the text stops before the end of the release's section. */
  shortened?: true;
}

/** Work of one agent: consecutive releases of one release line of one package, newest first. */
export interface Sample {
  /** Unique, of `[a-z0-9_-]`, at most 64 characters. */
  custom_id: string;
  package: string;
  /** Release line: `4.x`, or `0.x`. */
  line: string;
  /** Oldest and newest version of `notes`. */
  from: string;
  to: string;
  /** SPDX identifier of the package's licence. */
  license: string;
  notes: ReleaseNote[];
}

/** Memory blocks of a sample agent, in their order. */
export const memoryLabels = ['summary', 'breaking_changes', 'security'] as const;
export type MemoryLabel = (typeof memoryLabels)[number];

export type FactKind = 'latest' | 'major' | 'breaking' | 'advisory' | 'security';

/** A verbatim piece of the notes that the block `label` must hold after the run. */
export interface Fact {
  label: MemoryLabel;
  kind: FactKind;
  /** Version of the release with the fact. */
  version: string;
  fact: string;
}

/** Facts of one sample, found by an independent parser. */
export interface Expected {
  custom_id: string;
  /** In the order of the notes. */
  versions: string[];
  latest: string;
  facts: Fact[];
}

const samplesFolder = join(import.meta.dirname, '../../samples');

/** Absolute paths of the samples' files. */
export const sampleFiles = {
  agents: join(samplesFolder, 'changelogs/agents.jsonl'),
  expected: join(samplesFolder, 'changelogs/expected.jsonl'),
  sources: join(samplesFolder, 'changelogs/sources.json'),
  notice: join(samplesFolder, 'NOTICE'),
  tools: join(samplesFolder, 'tools'),
} as const;

/** Reads the samples, in the order of the file. */
export function readSamples(): Sample[] {
  return readJsonLines(sampleFiles.agents) as Sample[];
}

/** Reads the expected facts, one row per sample and in the same order. */
export function readExpected(): Expected[] {
  return readJsonLines(sampleFiles.expected) as Expected[];
}

function readJsonLines(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as unknown);
}
