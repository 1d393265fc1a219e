import {
  encodeDefinition,
  parseModelHandle,
  toolPolicyOf,
  toolUsageRules,
  type CompileOptions,
  type Definition,
  type EncodedDefinition,
  type ToolPolicy,
} from '@nightshift/agent-core';

/** The parts of a definition that its requests share. */
export interface PreparedDefinition {
  readonly toolPolicy: ToolPolicy;
  readonly encoded: EncodedDefinition;
  /** Format of memory in its requests. */
  readonly memory_form: CompileOptions;
}

export function prepareDefinition(definition: Definition): PreparedDefinition {
  const toolPolicy = toolPolicyOf(definition);
  const instructions = [toolUsageRules(toolPolicy.rules), toolPolicy.result?.instructions ?? ''];
  return {
    toolPolicy,
    encoded: encodeDefinition({ ...definition, tools: toolPolicy.tools }, instructions),
    memory_form: {
      agent_type: definition.agent_type,
      model_provider: parseModelHandle(definition.model)?.provider ?? '',
    },
  };
}
