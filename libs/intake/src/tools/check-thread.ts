import { stripTypeScriptTypes } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { parse, type ModuleDeclaration, type Statement } from 'acorn';

/**
 * Checks one source, in a thread of its own: deep nesting makes Node's type stripper unusable for the rest of its thread, and
 * the parser takes quadratic time for some sources. Nothing of the source is evaluated.
 */

export interface SourceTask {
  readonly name: string;
  readonly source: string;
  readonly source_type: 'javascript' | 'typescript';
}

/** The module to run, or one sentence about a fault. */
export type SourceCheck =
  { readonly code: string } | { readonly problem: string; readonly line?: number; readonly column?: number };

/** The last edition of the language that the sandbox's engine knows. */
const ECMA_VERSION = 2025;

function check({ name, source, source_type }: SourceTask): SourceCheck {
  let code = source;
  try {
    if (source_type === 'typescript') code = stripTypeScriptTypes(source);
  } catch (error) {
    return explainTypeScript(error as NodeJS.ErrnoException);
  }
  try {
    const { body } = parse(code, { ecmaVersion: ECMA_VERSION, sourceType: 'module', locations: true });
    return exportTool(name, code, body);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const { line, column } = (error as SyntaxError & { readonly loc: { line: number; column: number } }).loc;
    return { problem: error.message.replace(/ \(\d+:\d+\)$/, ''), line, column: column + 1 };
  }
}

/** The stack of a syntax error begins with the file and line, lines of the source and a marker below the last. */
function explainTypeScript(error: NodeJS.ErrnoException): SourceCheck {
  if (error.code !== 'ERR_INVALID_TYPESCRIPT_SYNTAX' && error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
    throw error;
  const [, line, marker = ''] = /^.*:(\d+)\n(?:(?:.+\n)*?( *\^))?/.exec(error.stack ?? '') ?? [];
  if (line === undefined) return { problem: error.message };
  return { problem: error.message, line: Number(line), column: Math.max(1, marker.length) };
}

/** Exports a plain top-level function of the tool's name. */
function exportTool(
  name: string,
  code: string,
  body: readonly (Statement | ModuleDeclaration)[],
): SourceCheck {
  const exported = new Set<string>();
  const declared = new Set<string>();
  for (const node of body) {
    if (
      node.type === 'ImportDeclaration' ||
      node.type === 'ExportAllDeclaration' ||
      (node.type === 'ExportNamedDeclaration' && node.source != null)
    )
      return {
        problem: 'a tool cannot import modules',
        line: node.loc?.start.line ?? 1,
        column: (node.loc?.start.column ?? 0) + 1,
      };
    if (node.type === 'ExportDefaultDeclaration') exported.add('default');
    else if (node.type === 'ExportNamedDeclaration') {
      for (const { exported: as } of node.specifiers)
        exported.add(as.type === 'Identifier' ? as.name : String(as.value));
      if (node.declaration != null) for (const found of namesOf(node.declaration)) exported.add(found);
    } else for (const found of namesOf(node)) declared.add(found);
  }
  if (exported.has(name)) return { code };
  if (declared.has(name)) return { code: `${code}\nexport { ${name} };\n` };
  if (exported.has('default')) return { code };
  return { problem: `there is no function ${name}: write 'export function ${name}(…) { … }'` };
}

/** Values that are certainly no function. */
const NO_FUNCTIONS: ReadonlySet<string> = new Set([
  'Literal',
  'TemplateLiteral',
  'ObjectExpression',
  'ArrayExpression',
]);

/** Returns the names that a statement declares, except those of destructuring and of plain values. */
function namesOf(node: Statement | ModuleDeclaration): readonly string[] {
  if (node.type === 'FunctionDeclaration') return [node.id.name];
  if (node.type !== 'VariableDeclaration') return [];
  return node.declarations.flatMap(({ id, init }) =>
    id.type === 'Identifier' && !NO_FUNCTIONS.has(init?.type ?? 'Literal') ? [id.name] : [],
  );
}

parentPort?.postMessage(check(workerData as SourceTask));
