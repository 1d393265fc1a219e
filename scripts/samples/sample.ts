import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The notes of one release. `text` is a verbatim excerpt of the package's changelog, line endings as LF. */
export interface ReleaseNote {
  version: string;
  /** ISO date of the release, where the heading names one. */
  date?: string;
  text: string;
  /** True when the text stops at a line before the end of the release's section. */
  shortened?: true;
}

/** The work of one agent: the consecutive releases of one release line of one package, newest first. */
export interface Sample {
  /** Unique, of `[a-z0-9_-]`, at most 64 characters. */
  custom_id: string;
  package: string;
  /** The release line: `4.x`, or `0.x`. */
  line: string;
  /** Oldest and newest version of `notes`. */
  from: string;
  to: string;
  /** SPDX identifier of the package the notes shipped in. */
  license: string;
  notes: ReleaseNote[];
}

/** The memory blocks of a sample's agent, in the order in which they are shown. */
export const memoryLabels = ['summary', 'breaking_changes', 'security'] as const;
export type MemoryLabel = (typeof memoryLabels)[number];

export type FactKind = 'latest' | 'major' | 'breaking' | 'advisory' | 'security';

/** A verbatim piece of the notes that must stand in the block `label` once the agent has read them. */
export interface Fact {
  label: MemoryLabel;
  kind: FactKind;
  /** The release that says it. */
  version: string;
  fact: string;
}

/** What the independent parser reads out of the notes of one sample. */
export interface Expected {
  custom_id: string;
  /** In the order of the notes. */
  versions: string[];
  latest: string;
  facts: Fact[];
}

const samplesFolder = join(import.meta.dirname, '../../samples');

/** The files of the samples, as absolute paths. */
export const sampleFiles = {
  agents: join(samplesFolder, 'changelogs/agents.jsonl'),
  expected: join(samplesFolder, 'changelogs/expected.jsonl'),
  sources: join(samplesFolder, 'changelogs/sources.json'),
  notice: join(samplesFolder, 'NOTICE'),
  tools: join(samplesFolder, 'tools'),
} as const;

/** The shipped samples, in the order of the file. */
export function readSamples(): Sample[] {
  return readJsonLines(sampleFiles.agents) as Sample[];
}

/**
 * What the memories must hold after a run over the shipped samples, one row per sample and in the same order.
 */
export function readExpected(): Expected[] {
  return readJsonLines(sampleFiles.expected) as Expected[];
}

function readJsonLines(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as unknown);
}
