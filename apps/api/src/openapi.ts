import swagger from '@fastify/swagger';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { App } from './context.ts';

/**
 * Leaves out bounds that Zod adds to every integer, and that say nothing to a reader. Keeps examples of bodies, which Zod
 * leaves out where a part is transformed: they are all written as they are sent. Answers stay open for later fields.
 */
const JSON_SCHEMA = {
  zodToJsonConfig: {
    override: ({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: JsonSchema }) => {
      const { examples } = z.globalRegistry.get(zodSchema) ?? {};
      if (examples !== undefined) jsonSchema.examples = examples;
      // The rest of a strict object, as bodies are, is `never`.
      if (zodSchema instanceof z.ZodObject && zodSchema.def.catchall === undefined)
        delete jsonSchema.additionalProperties;
      // Zod says it of types that are read-only in the program.
      delete jsonSchema.readOnly;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  },
};

interface JsonSchema {
  minimum?: number;
  maximum?: number;
  additionalProperties?: unknown;
  readOnly?: unknown;
  examples?: unknown;
}

/** Makes `app.swagger()` the OpenAPI document of the routes registered after this. */
export function describeRoutes(app: App, version: string): void {
  void app.register(swagger, {
    openapi: {
      openapi: '3.1.1',
      info: {
        title: 'Nightshift',
        version,
        description:
          "Letta's wire shapes for agents, blocks, tools, runs, steps, messages and batches, and what they lack. " +
          'A batch is also found under `/v1/batches`. Paths may end in a slash. Lists page by `after` and `before`, ' +
          'and a page that is followed by another has a header `Link: <…>; rel="next"`, though it may hold fewer than `limit`; ' +
          'unknown query parameters are errors.',
      },
      servers: [{ url: 'http://127.0.0.1:8283' }],
      components: {
        securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
        headers: {
          Link: {
            description:
              'The pages beside this one: `</v1/…>; rel="next"` and `</v1/…>; rel="prev"`, each where there may be more on ' +
              'that side. An empty page has none; the list of messages of an agent has `next` alone. What would be longer than ' +
              '8,000 characters is left out, so with a long query go on by `after` until a page is empty.',
            schema: { type: 'string' },
          },
        },
      },
      security: [{ key: [] }],
    },
    transform: createJsonSchemaTransform(JSON_SCHEMA),
    transformObject: (document) => tidy(createJsonSchemaTransformObject(JSON_SCHEMA)(document)),
  });
}

/**
 * Every named schema comes twice, as `X` for answers and `XInput` for bodies. Leaves out those that nothing refers to, and
 * calls a body's schema `X` where no answer has that name. A body that may be null may be left out. What takes `after` is a
 * list, and its answer has a header that leads on.
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
    const page = parameters.some(({ name }) => name === 'after') ? responses['200'] : undefined;
    if (page !== undefined) page.headers = { Link: { $ref: '#/components/headers/Link' } };
    const { anyOf = [] } = requestBody?.content['application/json']?.schema ?? {};
    if (requestBody !== undefined && anyOf.some(({ type }) => type === 'null')) requestBody.required = false;
  }
  return tidied;
}

/** Those of one path, by method. */
type Operations = Readonly<Record<string, Operation>>;

interface Operation {
  readonly parameters?: readonly { readonly name: string }[];
  readonly requestBody?: RequestBody;
  readonly responses: Readonly<Record<string, { headers?: unknown }>>;
}

interface RequestBody {
  required?: boolean;
  readonly content: Readonly<
    Record<string, { readonly schema: { readonly anyOf?: readonly { readonly type?: unknown }[] } }>
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

/** Names of the schemas that `root` refers to, directly or through others. */
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

/** Serves the document, without a key. */
export function serveDocument(app: App): void {
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}
