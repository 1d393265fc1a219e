/** Copies the repository for the mutation tester. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';

const LEFT_OUT = new Set(['node_modules', '.git', '.data', '.nx', 'coverage']);

/**
 * Copies the repository at `root` to `tree` and links its packages; the repository's own packages link to
 * their copies.
 */
export function copyTree(root: string, tree: string): void {
  rmSync(tree, { recursive: true, force: true });
  mkdirSync(tree, { recursive: true });
  for (const name of readdirSync(root))
    if (!LEFT_OUT.has(name))
      cpSync(join(root, name), join(tree, name), {
        recursive: true,
        filter: (path) => !LEFT_OUT.has(basename(path)),
      });
  const projects = ['apps', 'libs'].flatMap((group) =>
    readdirSync(join(root, group)).map((name) => join(group, name)),
  );
  for (const folder of ['.', ...projects]) linkPackages(root, tree, join(folder, 'node_modules'));
}

function linkPackages(root: string, tree: string, folder: string): void {
  if (!existsSync(join(root, folder))) return;
  for (const name of namesIn(join(root, folder))) {
    const target = realpathSync(join(root, folder, name));
    if (!statSync(target).isDirectory()) continue;
    const inside = relative(root, target);
    const isOwn = !inside.split(sep).includes('node_modules');
    mkdirSync(dirname(join(tree, folder, name)), { recursive: true });
    symlinkSync(isOwn ? join(tree, inside) : target, join(tree, folder, name), 'junction');
  }
}

/** Lists the packages of a node_modules folder, and `.bin`; caches of tools are left out. */
function namesIn(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    if (name.startsWith('@')) return readdirSync(join(folder, name)).map((each) => join(name, each));
    return name.startsWith('.') && name !== '.bin' ? [] : [name];
  });
}
