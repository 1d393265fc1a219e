import { dirname, join } from 'node:path';
import { packClient } from './client/pack-client.ts';
import { readCommandLine } from './command-line.ts';

// Packs the client as it would be published.
readCommandLine({
  name: 'pack-client',
  what: 'Builds @nightshift/client and packs it into .data/pack.',
  takes: 'about 5 seconds',
  flags: {},
});
const { file, size } = packClient(join(dirname(import.meta.dirname), '.data/pack'));
process.stdout.write(`${file} (${Math.ceil(size / 1_000)} kB)\n`);
