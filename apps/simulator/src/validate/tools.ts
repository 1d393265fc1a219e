import type { Model } from '../models.ts';
import type { MessageParams } from '../scripts/script.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue } from './issue.ts';

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
/** Tools of the provider, some of which the client runs. */
const KNOWN_TYPE =
  /^(web_search|web_fetch|code_execution|tool_search_tool_(regex|bm25)|memory|bash|text_editor)_20\d{6}$/;
const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Validates `tools`: unique and valid names, and for client tools an object schema with plain keys. */
export function toolsIssue(tools: unknown): Issue | undefined {
  if (tools === undefined) return undefined;
  if (!Array.isArray(tools)) return invalid('tools: Input should be a valid list');
  const names = new Set<string>();
  for (const [at, tool] of tools.entries()) {
    if (!isObject(tool)) return invalid(`tools.${at}: Input should be a valid dictionary`);
    const { name, type } = tool;
    const isCustom = type === undefined || type === null || type === 'custom';
    if (typeof name !== 'string') {
      if (isCustom) return invalid(`tools.${at}.custom.name: Field required`);
      continue;
    }
    if (!TOOL_NAME.test(name)) {
      return invalid(`tools.${at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'`);
    }
    if (names.has(name)) return invalid('tools: Tool names must be unique.');
    names.add(name);
    if (!isCustom && !(typeof type === 'string' && KNOWN_TYPE.test(type)))
      return invalid(`tools.${at}: Input tag found using 'type' does not match any of the expected tags`);
    if (!isCustom) continue;
    const schema = tool['input_schema'];
    if (schema === undefined) return invalid(`tools.${at}.custom.input_schema: Field required`);
    if (!isObject(schema))
      return invalid(`tools.${at}.custom.input_schema: Input should be a valid dictionary`);
    if (schema['type'] === undefined) return invalid(`tools.${at}.custom.input_schema.type: Field required`);
    if (schema['type'] !== 'object')
      return invalid(`tools.${at}.custom.input_schema.type: Input should be 'object'`);
    const { properties } = schema;
    if (isObject(properties) && !Object.keys(properties).every((key) => PROPERTY_KEY.test(key))) {
      return invalid(
        `tools.${at}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`,
      );
    }
    const { strict } = tool;
    if (strict !== undefined && typeof strict !== 'boolean') {
      return invalid(`tools.${at}.custom.strict: Input should be a valid boolean`);
    }
  }
  return undefined;
}

/** Validates `tool_choice` against the tools and the model. */
export function toolChoiceIssue(params: MessageParams, model: Model): Issue | undefined {
  const choice = params['tool_choice'];
  if (choice === undefined || choice === null) return undefined;
  if (!isObject(choice)) return invalid('tool_choice: Input should be a valid dictionary');
  const { type } = choice;
  if (type !== 'auto' && type !== 'any' && type !== 'tool' && type !== 'none') {
    return invalid(
      "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'",
    );
  }
  if (params.tools === undefined || params.tools.length === 0) {
    return type === 'none' ? undefined : invalid('tool_choice: may only be specified while providing tools');
  }
  if (type === 'auto' || type === 'none') return undefined;
  if (model.generation === '5.5') {
    return invalid(`tool_choice: forced tool use ("${type}") is not supported by ${model.id}`);
  }
  const thinking = params['thinking'];
  if (isObject(thinking) && thinking['type'] === 'enabled') {
    return invalid('Thinking may not be enabled when tool_choice forces tool use.');
  }
  if (type === 'tool' && !params.tools.some((tool) => tool.name === choice['name'])) {
    return invalid(`tool_choice.name: Tool '${String(choice['name'])}' not found in provided tools`);
  }
  return undefined;
}
