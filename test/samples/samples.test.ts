import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readExpected, readSamples, sampleFiles } from '../../scripts/samples/sample.ts';
import { buildTranscript } from '../../scripts/samples/transcript.ts';

interface Origin {
  package: string;
  version: string;
  license: string;
}

const samples = readSamples();
const expected = readExpected();
const origins = JSON.parse(readFileSync(sampleFiles.sources, 'utf8')) as Origin[];

describe('the shipped samples', () => {
  test('are the work of at least 300 agents of at least 60 packages, in at most 900 kB', () => {
    expect(samples.length).toBeGreaterThanOrEqual(300);
    expect(new Set(samples.map((sample) => sample.package)).size).toBeGreaterThanOrEqual(60);
    expect(readFileSync(sampleFiles.agents).byteLength).toBeLessThanOrEqual(900_000);
  });

  test('have unique ids that fit a provider', () => {
    expect(new Set(samples.map((sample) => sample.custom_id)).size).toBe(samples.length);
    for (const { custom_id } of samples) expect(custom_id).toMatch(/^[a-z0-9_-]{1,64}$/);
  });

  test('give each agent two to six consecutive releases of one line, newest first, in less than 4 kB', () => {
    for (const { custom_id, line, from, to, notes } of samples) {
      const versions = notes.map((note) => note.version);
      expect(versions.length, custom_id).toBeGreaterThanOrEqual(2);
      expect(versions.length, custom_id).toBeLessThanOrEqual(6);
      expect([versions[0], versions.at(-1)], custom_id).toEqual([to, from]);
      expect(
        versions.every((version) => version.startsWith(line.replace('x', ''))),
        custom_id,
      ).toBe(true);
      const chars = notes.reduce((sum, note) => sum + note.text.length, 0);
      expect(chars, custom_id).toBeLessThan(4_000);
      expect(chars, custom_id).toBeGreaterThan(300);
    }
  });

  test('can be stored, and give each message an id of its own', () => {
    for (const sample of samples) {
      const messages = buildTranscript(sample, sample.notes);
      expect(messages.every(({ content }) => content.isWellFormed() && !content.includes('\0'))).toBe(true);
      expect(new Set(messages.map(({ otid }) => otid)).size, sample.custom_id).toBe(messages.length);
    }
  });
});

describe('the expected facts', () => {
  test('are verbatim in the notes of their release', () => {
    for (const [i, { custom_id, versions, latest, facts }] of expected.entries()) {
      const notes = samples[i]?.notes ?? [];
      expect(custom_id).toBe(samples[i]?.custom_id);
      expect(versions).toContain(latest);
      for (const { kind, version, fact } of facts) {
        const note = notes.find((candidate) => candidate.version === version);
        expect(kind === 'latest' || kind === 'major' ? note?.version : note?.text, custom_id).toContain(fact);
      }
    }
  });

  test('are of every kind', () => {
    const kinds = new Set(expected.flatMap(({ facts }) => facts.map(({ kind }) => kind)));
    expect([...kinds].sort()).toEqual(['advisory', 'breaking', 'latest', 'major', 'security']);
  });
});

describe('the NOTICE', () => {
  const notice = readFileSync(sampleFiles.notice, 'utf8');

  test('names version, licence and holder of every package of the samples', () => {
    const packages = new Set(samples.map((sample) => sample.package));
    expect(origins.map((origin) => origin.package).sort()).toEqual([...packages].sort());
    for (const origin of origins) {
      const row =
        notice.split('\n').find((line) => line.startsWith(`${origin.package} ${origin.version} | `)) ?? '';
      expect(row, origin.package).toContain(`| ${origin.license}, text `);
      expect(row.split(' | ')[2]?.trim(), origin.package).toBeTruthy();
    }
  });

  test('holds every licence text that its rows name', () => {
    const numbers = new Set(
      [...notice.matchAll(/\| ([\w.-]+), text (\d+) \|/g)].map((row) => `Text ${row[2]}: ${row[1]} `),
    );
    expect(numbers.size).toBeGreaterThan(3);
    for (const title of numbers) expect(notice).toContain(`---- ${title}`);
  });

  test('agrees with the samples about the licence', () => {
    const licenses = new Map(origins.map((origin) => [origin.package, origin.license]));
    for (const sample of samples) expect(sample.license).toBe(licenses.get(sample.package));
  });
});
