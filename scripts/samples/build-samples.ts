import type { PackageFiles } from './obtain.ts';
import { parseChangelog } from './parse-changelog.ts';
import type { Sample } from './sample.ts';
import { selectSamples } from './select-releases.ts';

/** The samples of one package: a pure function of its name, licence and changelog. */
export function buildSamples(pkg: Pick<PackageFiles, 'name' | 'license' | 'changelog'>): Sample[] {
  return selectSamples({ name: pkg.name, license: pkg.license, releases: parseChangelog(pkg.changelog) });
}
