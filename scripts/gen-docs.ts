import { join } from 'node:path';
import { stalePages, writePages } from './docs/reference-pages.ts';

// Writes docs/reference from the sources that the pages describe. With --check it writes nothing and fails when a page
// is out of date.
const [option, ...more] = process.argv.slice(2);
if ((option !== undefined && option !== '--check') || more.length > 0) {
  console.error('Usage: npm run gen-docs [-- --check]');
  process.exit(2);
}

const directory = join(import.meta.dirname, '../docs/reference');
if (option === '--check') {
  const stale = stalePages(directory);
  for (const { file } of stale) console.error(`docs/reference/${file} is not what its sources say.`);
  if (stale.length > 0) {
    console.error('Run: npm run gen-docs');
    process.exitCode = 1;
  } else console.log('docs/reference is up to date.');
} else {
  const written = writePages(directory);
  for (const { file } of written) console.log(`Wrote docs/reference/${file}.`);
  if (written.length === 0) console.log('docs/reference is up to date.');
}
