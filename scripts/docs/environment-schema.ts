import ts from 'typescript';

/** One environment variable, as the source of a `config.ts` describes it. */
export interface Variable {
  readonly name: string;
  /** Its doc comment as one line; empty where it has none. */
  readonly effect: string;
  /** What it may hold: kind, unit, bounds. */
  readonly value: string;
  /** As it would be written into the environment; null for none. */
  readonly fallback: string | null;
  readonly required: boolean;
}

/**
 * Reads the variables out of the source of a `config.ts`: the members of its one `z.object({…})` whose names are in
 * capitals. The source is read rather than imported, because comments are gone at run time and a config may reach far.
 * Throws for anything it cannot tell the meaning of, so that no variable is documented wrongly.
 *
 * `resolve` gives the value of a default that is not a literal, by the names it is reached through.
 */
export function readEnvironmentSchema(
  source: string,
  fileName: string,
  resolve: (path: readonly string[]) => unknown,
): readonly Variable[] {
  const file = ts.createSourceFile(fileName, source, ts.ScriptTarget.Latest, true);
  const locals = new Map<string, ts.Expression>();
  const objects: ts.ObjectLiteralExpression[] = [];
  const relations = new Map<string, string>();
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer !== undefined) {
      locals.set(node.name.text, node.initializer);
    }
    if (ts.isCallExpression(node) && nameOf(node.expression) === 'z.object') {
      const [members] = node.arguments;
      if (members !== undefined && ts.isObjectLiteralExpression(members)) objects.push(members);
    }
    const relation = ts.isObjectLiteralExpression(node) ? relationOf(node) : null;
    if (relation !== null) relations.set(relation.name, relation.message);
    ts.forEachChild(node, visit);
  };
  visit(file);

  const [members, ...others] = objects;
  if (members === undefined || others.length > 0) {
    throw new Error(`${fileName} must hold exactly one z.object({…}), and holds ${objects.length}.`);
  }
  return members.properties.map((member) => {
    const name = member.name?.getText() ?? '';
    if (!ts.isPropertyAssignment(member) || !/^[A-Z][A-Z0-9_]*$/.test(name)) {
      throw new Error(`${fileName}: '${member.getText()}' is not a variable in capitals.`);
    }
    const shape = shapeOf(member.initializer, locals, resolve, `${fileName}: ${name}`);
    const value = [describeValue(name, shape), relations.get(name)].filter((part) => part !== undefined);
    return {
      name,
      effect: docCommentOf(member),
      value: value.join('; '),
      fallback: shape.fallback,
      required: shape.fallback === null && !shape.optional,
    };
  });
}

/** What a chain of zod calls says, as far as a reader of the documentation needs it. */
interface Shape {
  readonly kind: 'text' | 'URL' | 'number' | readonly string[];
  readonly min: number | null;
  readonly max: number | null;
  readonly fallback: string | null;
  readonly optional: boolean;
}

/** Calls that say nothing which their doc comment does not say better. */
const SILENT_CALLS = new Set(['int', 'regex', 'superRefine', 'refine', 'trim']);

function shapeOf(
  expression: ts.Expression,
  locals: ReadonlyMap<string, ts.Expression>,
  resolve: (path: readonly string[]) => unknown,
  where: string,
): Shape {
  const plain: Shape = { kind: 'text', min: null, max: null, fallback: null, optional: false };
  if (ts.isIdentifier(expression)) {
    const local = locals.get(expression.text);
    if (local === undefined) throw new Error(`${where}: '${expression.text}' is not defined in this file.`);
    return shapeOf(local, locals, resolve, where);
  }
  if (!ts.isCallExpression(expression)) throw new Error(`${where}: cannot read '${expression.getText()}'.`);
  switch (nameOf(expression.expression)) {
    case 'z.string':
      return plain;
    case 'z.url':
      return { ...plain, kind: 'URL' };
    case 'z.coerce.number':
      return { ...plain, kind: 'number' };
    case 'z.enum':
      return { ...plain, kind: listOf(expression.arguments[0], where) };
  }
  if (!ts.isPropertyAccessExpression(expression.expression)) {
    throw new Error(`${where}: cannot read '${expression.getText()}'.`);
  }
  const inner = shapeOf(expression.expression.expression, locals, resolve, where);
  const method = expression.expression.name.text;
  const [argument] = expression.arguments;
  const given = (): unknown => {
    if (argument === undefined) throw new Error(`${where}: .${method}() says nothing.`);
    return valueOf(argument, resolve, where);
  };
  switch (method) {
    case 'positive':
      return { ...inner, min: 1 };
    case 'nonnegative':
      return { ...inner, min: 0 };
    case 'min':
      return { ...inner, min: Number(given()) };
    case 'max':
      return { ...inner, max: Number(given()) };
    case 'optional':
      return { ...inner, optional: true };
    case 'default':
      return { ...inner, fallback: String(given()) };
  }
  if (SILENT_CALLS.has(method)) return inner;
  throw new Error(`${where}: .${method}() is not known here; add it to scripts/docs/environment-schema.ts.`);
}

function describeValue(name: string, { kind, min, max }: Shape): string {
  if (kind === 'URL') return 'URL';
  if (kind === 'text') return min !== null && min > 1 ? `text of at least ${min} characters` : 'text';
  if (kind !== 'number') return kind.map((choice) => `\`${choice}\``).join(', ');
  const unit = name.endsWith('_MS') ? 'milliseconds' : name.includes('BYTES') ? 'bytes' : 'whole number';
  const bounds = [
    ...(min === null ? [] : [`at least ${min}`]),
    ...(max === null ? [] : [`at most ${max.toLocaleString('en-US')}`]),
  ];
  return [unit, ...bounds].join(', ');
}

/** `{ path: ['NAME'], message: 'must …' }`: a rule between variables, checked after each by itself. */
function relationOf(
  node: ts.ObjectLiteralExpression,
): { readonly name: string; readonly message: string } | null {
  const member = (name: string): ts.Expression | undefined =>
    node.properties.filter(ts.isPropertyAssignment).find((property) => property.name.getText() === name)
      ?.initializer;
  const path = member('path');
  const message = member('message');
  if (path === undefined || !ts.isArrayLiteralExpression(path)) return null;
  if (message === undefined || !ts.isStringLiteralLike(message)) return null;
  const [first] = path.elements;
  return first !== undefined && ts.isStringLiteralLike(first)
    ? { name: first.text, message: message.text }
    : null;
}

function listOf(expression: ts.Expression | undefined, where: string): readonly string[] {
  if (expression === undefined || !ts.isArrayLiteralExpression(expression)) {
    throw new Error(`${where}: z.enum() must be given its choices as a list.`);
  }
  return expression.elements.map((element) => {
    if (!ts.isStringLiteralLike(element)) throw new Error(`${where}: a choice must be a text.`);
    return element.text;
  });
}

function valueOf(
  expression: ts.Expression,
  resolve: (path: readonly string[]) => unknown,
  where: string,
): unknown {
  if (ts.isStringLiteralLike(expression)) return expression.text;
  if (ts.isNumericLiteral(expression)) return Number(expression.text);
  const path = nameOf(expression).split('.');
  const value = path.every((name) => /^\w+$/.test(name)) ? resolve(path) : undefined;
  if (value === undefined) throw new Error(`${where}: cannot tell the value of '${expression.getText()}'.`);
  return value;
}

/** `a.b.c` as it is written in one line, wherever the formatter broke it. */
function nameOf(expression: ts.Expression): string {
  return expression.getText().replaceAll(/\s/g, '');
}

function docCommentOf(node: ts.Node): string {
  const [doc] = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
  const text =
    typeof doc?.comment === 'string' ? doc.comment : (ts.getTextOfJSDocComment(doc?.comment) ?? '');
  return text.replaceAll(/\s+/g, ' ').trim();
}
