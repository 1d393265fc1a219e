/** The OpenAPI document, as far as tests read it. */
export type Schema = Readonly<Record<string, unknown>>;

interface Content {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly 'x-line-schema'?: Schema;
}

export interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Schema[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>;
}

export interface OpenApiDocument {
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: Readonly<Record<string, Schema>>;
  };
}

/** An operation with its place. */
export interface PlacedOperation extends Operation {
  readonly method: string;
  readonly path: string;
}

export function operationsOf({ paths }: OpenApiDocument): readonly PlacedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path })),
  );
}

/** Returns the schemas that a schema stands for: itself, those of its reference, and the members of its unions. */
export function formsOf({ components }: OpenApiDocument, schema: Schema): readonly Schema[] {
  const {
    $ref,
    anyOf = [],
    oneOf = [],
    allOf = [],
  } = schema as {
    readonly $ref?: string;
    readonly anyOf?: readonly Schema[];
    readonly oneOf?: readonly Schema[];
    readonly allOf?: readonly Schema[];
  };
  const named = $ref === undefined ? undefined : components.schemas[$ref.split('/').at(-1) ?? ''];
  const inner = [...anyOf, ...oneOf, ...allOf, ...(named === undefined ? [] : [named])];
  return [schema, ...inner.flatMap((form) => formsOf({ components } as OpenApiDocument, form))];
}

/** Returns the properties and parameters of a part of the document, with their names and places. */
export function propertiesOf(
  part: unknown,
  at = '',
): readonly { readonly name: string; readonly at: string; readonly schema: Schema }[] {
  if (typeof part !== 'object' || part === null) return [];
  const {
    properties,
    name,
    in: place,
    schema,
  } = part as {
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly name?: unknown;
    readonly in?: unknown;
    readonly schema?: Schema;
  };
  const own = Object.entries(typeof properties === 'object' ? properties : {}).map(([name, schema]) => ({
    name,
    at: `${at}.${name}`,
    schema,
  }));
  const parameter =
    typeof name === 'string' && place !== undefined && schema !== undefined
      ? [{ name, at: `${at}?${name}`, schema }]
      : [];
  const inner = Object.entries(part)
    .filter(([key]) => key !== 'examples')
    .flatMap(([key, value]) => propertiesOf(value, `${at}/${key}`));
  return [...own, ...parameter, ...inner];
}
