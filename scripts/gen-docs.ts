import { join } from 'node:path';
import { readCommandLine } from './command-line.ts';
import { writePages } from './docs/reference-pages.ts';

readCommandLine({
  name: 'gen-docs',
  what: 'Writes the pages of docs/reference from the sources that they describe.',
  takes: 'a second',
  flags: {},
});
const written = writePages(join(import.meta.dirname, '../docs/reference'));
for (const { file } of written) console.log(`Wrote docs/reference/${file}.`);
if (written.length === 0) console.log('docs/reference is up to date.');
