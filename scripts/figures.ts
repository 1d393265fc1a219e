import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { readCommandLine } from './command-line.ts';

// Prints sizes of the code. It is not a gate.
readCommandLine({
  name: 'figures',
  what: 'Prints lines, lengths of functions and kinds of database statements of the tracked files.',
  takes: 'a few seconds',
  flags: {},
});

const root = join(import.meta.dirname, '..');
const SOURCE = /\.(ts|tsx|mjs|cjs)$/;
const TEST = /(^|\/)test\/|\.test\.tsx?$/;
const PRODUCT = /^(apps\/(api|worker|tool-host|net-host)|libs)\//;
/** Start of a statement that is not a fragment. */
const STATEMENT = /^`(\s|--.*)*(with|select|insert|update|delete|create|alter|drop|notify|set|lock)\b/i;
const BUILDER = /^(selectFrom|insertInto|updateTable|deleteFrom|mergeInto)$/;

const files = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter((file) => SOURCE.test(file) && !TEST.test(file) && existsSync(join(root, file)));
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const product = files.filter((file) => PRODUCT.test(file));

const functions: { readonly name: string; readonly lines: number }[] = [];
const statements = { raw: 0, built: 0 };
for (const file of product.filter((path) => !path.includes('/migrations/'))) {
  const source = ts.createSourceFile(file, texts.get(file) ?? '', ts.ScriptTarget.Latest, true);
  const lineAt = (place: number): number => source.getLineAndCharacterOfPosition(place).line;
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const name = nameOf(node);
      const from = lineAt(node.getStart());
      if (name !== undefined)
        functions.push({ name: `${name} (${file}:${from + 1})`, lines: lineAt(node.end) - from + 1 });
    }
    const isRaw = ts.isTaggedTemplateExpression(node) && node.tag.getText() === 'sql';
    if (isRaw && STATEMENT.test(node.template.getText())) statements.raw += 1;
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression))
      statements.built += Number(BUILDER.test(node.expression.name.text));
    ts.forEachChild(node, visit);
  };
  visit(source);
}
functions.sort((a, b) => a.lines - b.lines);

const linesOf = (paths: readonly string[]): string =>
  paths
    .reduce((sum, file) => sum + (texts.get(file)?.split('\n').length ?? 1) - 1, 0)
    .toLocaleString('en-US');
const at = (share: number): number => functions[Math.ceil(share * functions.length) - 1]?.lines ?? 0;

console.log(`lines that are not tests: ${linesOf(files)}`);
console.log(
  `  of these the product:   ${linesOf(product)} (apps/api, apps/worker, apps/tool-host, apps/net-host, libs)`,
);
// Migrations are written once, so they are left out from here on.
console.log(
  `functions of the product: ${functions.length}; lines: median ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, longest ${at(1)}`,
);
for (const { name, lines } of functions.slice(-10).reverse())
  console.log(`  ${String(lines).padStart(4)} ${name}`);
console.log(
  `statements of the product: ${statements.raw} raw sql\`\`, ${statements.built} of the query builder`,
);

/** Returns the name of a function, or of its variable or member. Callbacks have none. */
function nameOf(node: ts.Node & { readonly name?: ts.Node }): string | undefined {
  if (node.name !== undefined) return node.name.getText();
  const { parent } = node;
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent)
    ? parent.name.getText()
    : undefined;
}
