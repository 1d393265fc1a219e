import swagger from '@fastify/swagger';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { App } from './context.ts';
import { LINE_TYPES } from './uploads/line-upload.ts';

/**
 * Omits the bounds that Zod adds to every integer. Keeps examples of bodies, which Zod omits for transformed parts. Answers
 * stay open for later fields.
 */
const JSON_SCHEMA = {
  zodToJsonConfig: {
    override: ({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: JsonSchema }) => {
      const { examples } = z.globalRegistry.get(zodSchema) ?? {};
      if (examples !== undefined) jsonSchema.examples = examples;
      // A strict object, such as a body, has the rest type `never`.
      if (zodSchema instanceof z.ZodObject && zodSchema.def.catchall === undefined)
        delete jsonSchema.additionalProperties;
      // Zod adds readOnly for types that are read-only in the program.
      delete jsonSchema.readOnly;
      // Zod's patterns of times and days are long, and the formats say it.
      if (zodSchema instanceof z.ZodISODateTime || zodSchema instanceof z.ZodISODate) {
        jsonSchema.format = zodSchema instanceof z.ZodISODate ? 'date' : 'date-time';
        delete jsonSchema.pattern;
      }
      // An answer without a body.
      if (zodSchema instanceof z.ZodUndefined) jsonSchema.type = 'null';
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  },
};

interface JsonSchema {
  type?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  additionalProperties?: unknown;
  readOnly?: unknown;
  examples?: unknown;
}

/** The groups of operations. */
const TAGS = [
  { name: 'batches', description: 'Submit runs, follow them, read results, and review memory changes.' },
  { name: 'agents', description: 'Definitions of agents, with their blocks, tools, messages and cursors.' },
  { name: 'blocks', description: 'Pieces of memory, their revisions and differences.' },
  { name: 'tools', description: 'Tools that agents may call.' },
  { name: 'mcp-servers', description: 'MCP servers, and the approval of their tools.' },
  { name: 'secrets', description: 'Encrypted values for tools. No request returns one.' },
  { name: 'runs', description: 'Agents on their way through batches.' },
  { name: 'steps', description: 'Model requests of runs.' },
  { name: 'schedules', description: 'Rules that submit batches by the clock.' },
  { name: 'events', description: 'Changes of batches and schedules.' },
  { name: 'usage', description: 'Counts and cost.' },
  { name: 'models', description: 'Models and their prices.' },
  { name: 'tags', description: 'Tags of agents.' },
  { name: 'session', description: 'The sign-in of browsers.' },
  { name: 'health', description: 'The state of the server; needs no key.' },
  { name: 'workers', description: 'Processes that do the work.' },
  { name: 'admin', description: 'The state of the installation.' },
];

/** Makes `app.swagger()` the OpenAPI document of routes registered after this call. */
export function describeRoutes(app: App, version: string): void {
  void app.register(swagger, {
    openapi: {
      openapi: '3.1.1',
      info: {
        title: 'Nightshift',
        version,
        description:
          "Letta's wire shapes for agents, blocks, tools, runs, steps, messages and batches, with additional fields. " +
          'Batches are also available under `/v1/batches`. Paths may end in a slash. Lists page by `after` and `before`. ' +
          'If another page follows, a page has a header `Link: <…>; rel="next"`, though it may hold fewer than `limit` ' +
          'items. Unknown query parameters are errors.',
      },
      servers: [{ url: 'http://127.0.0.1:8283' }],
      tags: TAGS,
      components: {
        securitySchemes: {
          key: {
            type: 'http',
            scheme: 'bearer',
            description:
              'The key of the server, as `Authorization: Bearer <key>`. `npm start` writes it to `.data/api-key`.',
          },
          browser: {
            type: 'apiKey',
            in: 'cookie',
            name: 'nightshift_session',
            description: 'The cookie of `POST /v1/session`, which also counts as the key.',
          },
        },
        headers: {
          Link: {
            description:
              'The neighbouring pages: `</v1/…>; rel="next"` and `</v1/…>; rel="prev"`, each if there may be more on ' +
              "that side. An empty page has no links; the list of an agent's messages has `next` only. Links of more " +
              'than 8,000 characters are omitted: with a long query, continue by `after` until a page is empty.',
            schema: { type: 'string' },
          },
        },
      },
      security: [{ key: [] }],
    },
    transform: createJsonSchemaTransform(JSON_SCHEMA),
    transformObject: (document) => tidy(withLines(createJsonSchemaTransformObject(JSON_SCHEMA)(document))),
  });
}

/** The names of the schemas of lines, by operation. */
const LINES: Readonly<Record<string, readonly string[]>> = {
  createBatch: ['UploadFirstLineInput', 'BatchRequestInput', 'TemplateVariablesInput'],
  appendMessagesOfAgents: ['MessagesAppendItemInput'],
  importAgents: ['AgentCreateInput'],
};

/** Adds the media types of lines to the operations that take them. OpenAPI 3.1 cannot describe a line, so an extension does. */
function withLines<Document extends object>(document: Document): Document {
  const { paths } = document as unknown as { readonly paths: Readonly<Record<string, Operations>> };
  for (const { operationId = '', requestBody } of Object.values(paths).flatMap((path) =>
    Object.values(path),
  )) {
    const names = LINES[operationId];
    if (names === undefined || requestBody === undefined) continue;
    const content = {
      schema: { type: 'string', description: 'A JSON value a line, plain, or encoded as gzip or zstd.' },
      'x-line-schema': { anyOf: names.map((name) => ({ $ref: `${REFERENCE}${name}` })) },
    };
    for (const type of LINE_TYPES) requestBody.content[type] = content;
  }
  return document;
}

/**
 * Tidies the document's schemas. Every named schema appears as `X` for answers and `XInput` for bodies: removes unreferenced
 * schemas, and renames `XInput` to `X` if no answer has that name.
 * Makes nullable bodies optional, describes successes, and adds the `Link` header to operations that take `after`.
 */
function tidy<Document extends object>(document: Document): Document {
  const { schemas, rest } = split(document);
  const kept = reachable(rest, schemas);
  const renamed = [...kept].filter(
    (name) => name.endsWith('Input') && !kept.has(name.slice(0, -'Input'.length)),
  );
  const named = Object.fromEntries([...kept].sort().map((name) => [name, schemas[name]]));
  let text = JSON.stringify({ ...rest, components: { ...rest.components, schemas: named } });
  for (const name of renamed) {
    const short = name.slice(0, -'Input'.length);
    text = text
      .replaceAll(`"${REFERENCE}${name}"`, `"${REFERENCE}${short}"`)
      .replace(`"${name}":`, `"${short}":`);
  }
  const tidied = JSON.parse(text) as Document & { readonly paths: Readonly<Record<string, Operations>> };
  for (const { parameters = [], requestBody, responses } of Object.values(tidied.paths).flatMap((path) =>
    Object.values(path),
  )) {
    for (const response of Object.values(responses))
      if (response.description === 'Default Response') response.description = 'Success';
    const page = parameters.some(({ name }) => name === 'after') ? responses['200'] : undefined;
    if (page?.content?.['application/json'] !== undefined)
      page.headers = { Link: { $ref: '#/components/headers/Link' } };
    const { anyOf = [] } = requestBody?.content['application/json']?.schema ?? {};
    if (requestBody !== undefined && anyOf.some(({ type }) => type === 'null')) requestBody.required = false;
  }
  return tidied;
}

/** Operations of a path, by method. */
type Operations = Readonly<Record<string, Operation>>;

interface Operation {
  readonly operationId?: string;
  readonly parameters?: readonly { readonly name: string }[];
  readonly requestBody?: RequestBody;
  readonly responses: Readonly<
    Record<
      string,
      { description?: string; headers?: unknown; readonly content?: Readonly<Record<string, unknown>> }
    >
  >;
}

interface RequestBody {
  required?: boolean;
  readonly content: Record<
    string,
    { readonly schema: { readonly type?: string; readonly anyOf?: readonly { readonly type?: unknown }[] } }
  >;
}

const REFERENCE = '#/components/schemas/';

function split(document: object): {
  readonly schemas: Readonly<Record<string, unknown>>;
  readonly rest: { readonly components: object };
} {
  const { components = {}, ...rest } = document as { components?: { schemas?: Record<string, unknown> } };
  const { schemas = {}, ...others } = components;
  return { schemas, rest: { ...rest, components: others } };
}

/** Returns the names of the schemas that `root` references, directly or indirectly. */
function reachable(root: unknown, schemas: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const found = new Set<string>();
  const queue: unknown[] = [root];
  for (const part of queue) {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (found.has(name)) continue;
      found.add(name);
      queue.push(schemas[name]);
    }
  }
  return found;
}

/** Serves the document without a key. */
export function serveDocument(app: App): void {
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}
