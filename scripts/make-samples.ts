import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readCommandLine } from './command-line.ts';
import { expectFacts } from './samples/facts.ts';
import { composeNotice, verifyLicense } from './samples/licenses.ts';
import { fetchPackage, findPackage } from './samples/obtain.ts';
import { buildSamples } from './samples/build-samples.ts';
import { sampleFiles, toJsonLines } from './samples/sample.ts';
import { sources } from './samples/sources.ts';

/**
 * `npm run make-samples -- --fetch` writes samples/changelogs and samples/NOTICE anew out of the packages of
 * `samples/sources.ts`. The same packages give the same bytes. Without `--fetch` every package must be in
 * node_modules or have been fetched before (`.data/samples`).
 */
const { flags } = readCommandLine({
  name: 'make-samples',
  what: 'Writes samples/changelogs and samples/NOTICE anew out of the packages of scripts/samples/sources.ts.',
  takes: 'seconds; minutes where the packages are fetched',
  flags: { fetch: { what: 'get packages that are not in node_modules from npm' } },
});

const packages = sources.map((source) => {
  const found = findPackage(source) ?? (flags.fetch ? fetchPackage(source) : undefined);
  if (found === undefined) {
    throw new Error(
      `${source} is not in node_modules. Run "npm run make-samples -- --fetch" to get it from npm.`,
    );
  }
  verifyLicense(found);
  return found;
});

const perPackage = packages.map((pkg) => ({ pkg, samples: buildSamples(pkg) }));
for (const { pkg, samples } of perPackage) {
  if (samples.length === 0)
    console.error(`${pkg.name} ${pkg.version}: no releases to read; take it off the list`);
}
const used = perPackage.filter(({ samples }) => samples.length > 0);
const samples = used.flatMap((entry) => entry.samples);

write(sampleFiles.agents, toJsonLines(samples));
write(sampleFiles.expected, toJsonLines(samples.map(expectFacts)));
write(sampleFiles.notice, composeNotice(used.map(({ pkg }) => pkg)));
const origins = used.map(({ pkg }) => ({
  package: pkg.name,
  version: pkg.version,
  license: pkg.license,
  changelog_sha256: pkg.changelogSha256,
}));
write(sampleFiles.sources, `[\n${origins.map((origin) => `  ${JSON.stringify(origin)}`).join(',\n')}\n]\n`);
console.log(`${samples.length} agents of ${used.length} packages`);

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
