import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packClient } from '../../scripts/client/pack-client.ts';

/** What {@link PROGRAM} prints and returns. */
export interface ProgramReport {
  readonly state: string;
  readonly lines: number;
  readonly ids: number;
  readonly percent: number;
}

/** Twenty lines of a user: they submit 1,000 requests, wait, and read the results. They run on Node and in browsers. */
const PROGRAM = `
import { createNightshift } from '@nightshift/client';

export async function main(url, apiKey) {
  const nightshift = createNightshift({ url, apiKey });
  const agent = await nightshift.agents.create({ name: 'sorter', model: 'anthropic/claude-haiku-4-5' });
  const requests = Array.from({ length: 1_000 }, (_, place) => ({
    custom_id: \`ticket-\${place}\`,
    agent_id: agent.id,
    conversation: 'isolated',
    input: \`Ticket \${place} \${agent.id}\`,
  }));
  const { id } = await nightshift.batches.create({ requests });
  let percent = 0;
  const { state } = await nightshift.batches.wait(id, { onProgress: (progress) => (percent = progress.percent) });
  const ids = [];
  for await (const { custom_id, state } of nightshift.batches.results(id)) {
    if (state === 'completed') ids.push(custom_id);
  }
  return { state, lines: ids.length, ids: new Set(ids).size, percent };
}
`;

const START = `
import { main } from './program.js';
const [url, apiKey] = process.argv.slice(2);
process.stdout.write(JSON.stringify(await main(url, apiKey)));
`;

/** Makes an empty project in `directory` that has the packed client and {@link PROGRAM}. */
export function makeProject(directory: string): void {
  const target = join(directory, 'node_modules/@nightshift/client');
  mkdirSync(target, { recursive: true });
  const { file } = packClient(join(directory, 'pack'));
  const { status, stderr } = spawnSync('tar', ['-xzf', file, '-C', target, '--strip-components=1']);
  if (status !== 0) throw new Error(stderr.toString());
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ type: 'module' }));
  writeFileSync(join(directory, 'program.js'), PROGRAM);
  writeFileSync(join(directory, 'start.js'), START);
}

/** Returns the first Node of the path whose major version is 20 to 23; undefined without any. */
export function findOlderNode(): string | undefined {
  const { stdout } = spawnSync('which', ['-a', 'node'], { encoding: 'utf8' });
  return stdout.split('\n').find((path) => {
    if (path === '') return false;
    const version = spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout;
    return /^v2[0-3]\./.test(version);
  });
}
