import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { formsOf, operationsOf, type OpenApiDocument, type Schema } from './document.ts';

interface Validate {
  (value: unknown): boolean;
  readonly errors?: readonly unknown[] | null;
}

interface Ajv {
  addSchema(schema: object, key: string): void;
  compile(schema: object): Validate;
}

// The core's Ajv knows JSON Schema 2020-12; the one of the repository's root does not.
const { Ajv2020 } = createRequire(new URL('../../../libs/agent-core/package.json', import.meta.url))(
  'ajv/dist/2020.js',
) as { readonly Ajv2020: new (options: object) => Ajv };

const document = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
) as OpenApiDocument;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const DAY = /^\d{4}-\d\d-\d\d$/;
const OWN_ID =
  /^(agent|block|tool|message|run|step|job|batch_item|conversation|schedule|user)-[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** Properties whose value may be a text of the caller, or the key of a group. */
const FREE = new Set(['key', 'value', 'content', 'text', 'name', 'tags', 'custom_id']);

/** Compiles schemas of the document. */
export function createCompiler(of: object = document): (pointer: string) => Validate {
  const ajv = new Ajv2020({
    strict: false,
    validateSchema: false,
    allErrors: true,
    formats: { 'date-time': TIME, date: DAY, uri: true, int64: true },
  });
  ajv.addSchema(of, 'document');
  return (pointer) => ajv.compile({ $ref: `document#${pointer}` });
}

const compile = createCompiler();
const compiled = new Map<string, Validate>();

/** Literal paths before paths with parameters. */
const ROUTES = operationsOf(document)
  .map((operation) => ({
    ...operation,
    pattern: new RegExp(`^${operation.path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`),
  }))
  .toSorted((one, other) => one.path.split('{').length - other.path.split('{').length);

/**
 * Checks an answer against the document: its schema, and that ids and times have a pattern or a format.
 * Throws: the differences.
 */
export function checkAnswer(method: string, url: string, status: number, body: unknown): void {
  const path = new URL(url, 'http://localhost').pathname
    .replace(/\/$/, '')
    .replace(/^\/v1\/batches/, '/v1/messages/batches');
  const route = ROUTES.find((route) => route.method === method.toLowerCase() && route.pattern.test(path));
  const type = status < 400 ? 'application/json' : 'application/problem+json';
  const code = status < 400 ? String(status) : `${String(status)[0] ?? ''}XX`;
  const schema = route?.responses[code]?.content?.[type]?.schema;
  if (route === undefined || schema === undefined) return;
  const pointer = ['', 'paths', route.path, route.method, 'responses', code, 'content', type, 'schema']
    .map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    .join('/');
  const validate = compiled.get(pointer) ?? compile(pointer);
  compiled.set(pointer, validate);
  const faults = validate(body) ? findUntyped(body, [schema]) : (validate.errors ?? []);
  if (faults.length > 0)
    throw new Error(
      `${method} ${url} answers not as openapi.json says: ${JSON.stringify(faults.slice(0, 5), null, 2)}`,
    );
}

/** Finds ids without a pattern and times without a format, among the parts that the schemas describe. */
function findUntyped(value: unknown, schemas: readonly Schema[], at = ''): readonly string[] {
  const forms = schemas.flatMap((schema) => formsOf(document, schema));
  if (forms.length === 0) return [];
  if (typeof value === 'string') {
    const isTyped = forms.some(({ format, pattern, const: only }) => format ?? pattern ?? only);
    return isTyped || !(TIME.test(value) || OWN_ID.test(value)) ? [] : [`${at}: ${value}`];
  }
  if (Array.isArray(value)) {
    const items = forms.flatMap((form) =>
      typeof form['items'] === 'object' ? [form['items'] as Schema] : [],
    );
    return value.flatMap((item, index) => findUntyped(item, items, `${at}/${index}`));
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    if (FREE.has(name)) return [];
    const described = forms.flatMap((form) => {
      const { [name]: schema } = (form['properties'] ?? {}) as Readonly<Record<string, Schema>>;
      return schema === undefined ? [] : [schema];
    });
    return findUntyped(inner, described, `${at}/${name}`);
  });
}
