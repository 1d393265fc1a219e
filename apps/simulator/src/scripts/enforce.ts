import { sample } from './sample-arguments.ts';
import { fits, isJsonObject, ownOf, resolve, type Schema } from './schema.ts';
import type {
  ContentBlock,
  JsonObject,
  JsonValue,
  MessageParams,
  ScriptReply,
  ScriptRequest,
} from './script.ts';

type Draw = ScriptRequest['draw'];

/** Stop reasons of answers that may break a schema: they end before the grammar does. */
const CUT_OFF: ReadonlySet<string> = new Set(['max_tokens', 'refusal', 'model_context_window_exceeded']);

/**
 * Makes a reply keep to the schemas that its request enforces, whatever the script wrote: the arguments of strict tools, and
 * the text of the last answer. Parts that fit stay, and only other parts are replaced by samples.
 */
export function enforceSchemas(
  reply: ScriptReply,
  { params, draw }: Omit<ScriptRequest, 'seed'>,
): ScriptReply {
  const schemas = strictSchemas(params);
  const format = formatOf(params);
  if ((schemas.size === 0 && format === undefined) || CUT_OFF.has(reply.stop_reason)) return reply;
  const content = reply.content.map((block): ContentBlock => {
    const schema = block.type === 'tool_use' ? schemas.get(textOf(block['name'])) : undefined;
    return schema === undefined ? block : { ...block, input: conform(schema, block['input'], draw) };
  });
  const isLast = format !== undefined && reply.stop_reason !== 'tool_use';
  return { ...reply, content: isLast ? withJson(content, format, draw) : content };
}

function strictSchemas({ tools = [] }: MessageParams): ReadonlyMap<string, Schema> {
  return new Map(
    tools.flatMap((tool) =>
      tool['strict'] === true ? [[tool.name, tool['input_schema'] as unknown as Schema] as const] : [],
    ),
  );
}

function formatOf(params: MessageParams): Schema | undefined {
  const config = params['output_config'] as { format?: { schema?: Schema } | null } | null | undefined;
  return config?.format?.schema;
}

/** Puts JSON of the schema in place of the texts; an answer without text stays empty. */
function withJson(content: readonly ContentBlock[], schema: Schema, draw: Draw): ContentBlock[] {
  const texts = content.filter(({ type }) => type === 'text');
  const [first] = texts;
  if (first === undefined) return [...content];
  const said = texts.map((block) => textOf(block['text'])).join('');
  const value = parse(said);
  if (value !== undefined && fits(schema, value, schema)) return [...content];
  const text = JSON.stringify(conform(schema, value, draw));
  return content.flatMap((block) =>
    block === first ? [{ ...block, text }] : block.type === 'text' ? [] : [block],
  );
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Returns the value where it fits; of an object its fitting parts, with samples of the others that are required. */
function conform(root: Schema, given: JsonValue | undefined, draw: Draw): JsonValue {
  const conformed = (schema: Schema, value: JsonValue | undefined, name: string): JsonValue => {
    if (value !== undefined && fits(schema, value, root)) return value;
    const { type, properties = {}, required = [] } = resolve(schema, root);
    if (type !== 'object' || !isJsonObject(value)) return sample(schema, name, draw, root);
    const kept: JsonObject = {};
    for (const [key, property] of Object.entries(properties)) {
      const part = ownOf(value, key);
      if (part !== undefined || required.includes(key)) kept[key] = conformed(property, part, name + key);
    }
    return kept;
  };
  return conformed(root, given, '');
}
