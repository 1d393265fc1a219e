import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Installs the packages of a folder with its own lockfile, unless its stamp is current. Exits when npm fails.
 */
export function installOwnPackages(folder: string, name: string): void {
  const stampFile = join(folder, 'node_modules', `.${name}-stamp`);
  const stamp = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .update(`${process.platform} ${process.arch}`)
    .digest('hex');
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return;
  process.stderr.write(`Installing the packages of the ${name} (usually 5 to 20 seconds, once) ...\n`);
  rmSync(stampFile, { force: true });
  const { status } = spawnSync(
    'npm',
    ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
    {
      cwd: folder,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    },
  );
  if (status !== 0) {
    process.stderr.write(`npm ci in ${folder} failed: check the network and the registry.\n`);
    process.exit(1);
  }
  writeFileSync(stampFile, stamp);
}
