import {
  isJsonObject,
  MAX_OUTPUT_TOKENS_DEFAULT,
  modelTraits,
  NightshiftError,
  parseModelHandle,
  unknownModel,
  type JsonObject,
  type ModelSettings,
  type PriceTable,
} from '@nightshift/agent-core';
import type { AgentPatch } from '../../schemas/agent.ts';

/** Smallest thinking budget that the provider accepts; the default for enabled thinking, as in Letta. */
const THINKING_BUDGET_MIN = 1_024;

/**
 * Returns the checked model handle that the caller names, or null. `present` is the agent's current handle.
 * Throws: `validation_failed` for an unknown model, or an `llm_config` with two models.
 */
export function modelOf(
  input: Pick<AgentPatch, 'model' | 'llm_config'>,
  prices: PriceTable,
  present: string | null,
): string | null {
  const handle = input.model ?? handleOf(input.llm_config, present);
  if (handle === null) return null;
  const message = unknownModel(prices, handle);
  if (message !== null) {
    const path = placeOf(input, handle);
    throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
  }
  return handle;
}

/** Returns the field that names the handle. */
function placeOf({ model, llm_config }: Pick<AgentPatch, 'model' | 'llm_config'>, handle: string): string {
  if (model != null) return '/model';
  return handle === llm_config?.handle ? '/llm_config/handle' : '/llm_config/model';
}

/**
 * Returns the handle of Letta's older `llm_config`. If only one of `model` and `handle` differs from the present handle, that
 * field wins.
 * Throws: `validation_failed` if both differ from the agent's handle and from each other.
 */
function handleOf(config: AgentPatch['llm_config'], present: string | null): string | null {
  if (config == null) return null;
  const { handle } = config;
  if (config.model == null) return handle ?? null;
  // Some clients write the handle into `model`.
  const model = parseModelHandle(config.model)?.name ?? config.model;
  const isPresents = isNamed(model, present);
  if (handle != null && handle !== present) {
    if (isPresents || isNamed(model, handle)) return handle;
    throw ambiguousModel(model, handle);
  }
  if (handle != null && isPresents) return handle;
  const provider = config.provider_name ?? config.model_endpoint_type ?? providerOf(present);
  return provider === null ? null : `${provider}/${model}`;
}

/** Date suffix of a model name: Letta answers the dated name beside an undated handle. */
const DATE = /-\d{8}$/;

function isNamed(model: string, handle: string | null): boolean {
  const name = handle === null ? undefined : parseModelHandle(handle)?.name;
  return model === name || model.replace(DATE, '') === name;
}

function providerOf(handle: string | null): string | null {
  return handle === null ? null : (parseModelHandle(handle)?.provider ?? null);
}

function ambiguousModel(model: string, handle: string): NightshiftError {
  const message = `must name one model: model is '${model}', handle is '${handle}'`;
  return new NightshiftError('validation_failed', `/llm_config ${message}.`, {
    fields: ['model', 'handle'].map((field) => ({ path: `/llm_config/${field}`, message })),
  });
}

type SettingsInput = Pick<
  AgentPatch,
  'model' | 'model_settings' | 'llm_config' | 'max_tokens' | 'parallel_tool_calls'
>;

/**
 * Returns the settings for requests to this model, or null if the caller gives none. `present` holds the current settings.
 * Throws: `validation_failed` for thinking settings that the provider would refuse in every request.
 */
export function modelSettingsOf(
  input: SettingsInput,
  handle: string,
  present: ModelSettings | null,
): ModelSettings | null {
  const { model_settings: settings, llm_config: config } = input;
  const max_output_tokens = settings?.max_output_tokens ?? input.max_tokens ?? config?.max_tokens ?? null;
  const parallel_tool_calls =
    settings?.parallel_tool_calls ?? input.parallel_tool_calls ?? config?.parallel_tool_calls ?? null;
  const given = extraOf(input);
  const saysNothing =
    max_output_tokens === null && parallel_tool_calls === null && Object.keys(given).length === 0;
  if (saysNothing && !namesModel(input)) return null;
  const extra = { ...present?.extra, ...given };
  const result = {
    max_output_tokens: max_output_tokens ?? present?.max_output_tokens ?? MAX_OUTPUT_TOKENS_DEFAULT,
    parallel_tool_calls: parallel_tool_calls ?? present?.parallel_tool_calls ?? true,
    extra: isJsonObject(extra['thinking'])
      ? { ...extra, thinking: thinkingOf(extra['thinking'], handle) }
      : extra,
  };
  assertMayThink(result, input, handle);
  assertBudgetFits(result, placeOfBudget(input, handle));
  return result;
}

function namesModel({ model, llm_config }: SettingsInput): boolean {
  return model != null || llm_config?.handle != null || llm_config?.model != null;
}

/** Reads the context window from either of Letta's two fields; null if both are absent. */
export function contextWindowOf(
  input: Pick<AgentPatch, 'context_window_limit' | 'llm_config'>,
): number | null {
  return input.context_window_limit ?? input.llm_config?.context_window ?? null;
}

/** Returns the extra request fields. Omits sampling parameters, which the provider refuses. */
function extraOf({ model_settings: settings, llm_config: config }: SettingsInput): JsonObject {
  const effort = settings?.effort ?? config?.effort;
  return {
    ...(settings?.thinking == null ? {} : { thinking: settings.thinking as JsonObject }),
    ...(effort == null ? {} : { output_config: { effort } }),
  };
}

/**
 * Returns the thinking settings in the form that the model accepts. Without a type thinking is enabled; without a budget it
 * gets the default, as in Letta.
 * Models after 4.6 take no budget; earlier models need one. A budget is sent with `enabled` only, because the provider refuses
 * it otherwise. Other types pass unchanged.
 */
function thinkingOf(given: JsonObject, handle: string): JsonObject {
  const traits = modelTraits(nameOf(handle));
  const { budget_tokens, ...rest } = given;
  const type = given['type'] ?? 'enabled';
  if (
    type === 'enabled' ? traits.takes_thinking_budget : type === 'adaptive' && !traits.takes_adaptive_thinking
  )
    return { ...rest, budget_tokens: budget_tokens ?? THINKING_BUDGET_MIN, type: 'enabled' };
  return type === 'enabled' ? { ...rest, type: 'adaptive' } : rest;
}

function nameOf(handle: string): string {
  return parseModelHandle(handle)?.name ?? handle;
}

const THINKING_TYPE = '/model_settings/thinking/type';

/** Refuses to disable thinking for a model that always thinks. */
function assertMayThink({ extra }: ModelSettings, input: SettingsInput, handle: string): void {
  const thinking = extra['thinking'];
  const name = nameOf(handle);
  if (!isJsonObject(thinking) || thinking['type'] !== 'disabled' || !modelTraits(name).thinks_always) return;
  const isOfAgent = input.model_settings?.thinking == null && namesModel(input);
  const path = isOfAgent ? placeOf(input, handle) : THINKING_TYPE;
  const message = `${name} always thinks: set model_settings.thinking to the type adaptive`;
  throw new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
}

const THINKING_BUDGET = '/model_settings/thinking/budget_tokens';

/** Returns the field of the thinking budget, or the field that must fit it if the agent's thinking is unchanged. */
function placeOfBudget(input: SettingsInput, handle: string): string {
  const { model_settings, llm_config, max_tokens } = input;
  if (model_settings?.thinking != null) return THINKING_BUDGET;
  if (model_settings?.max_output_tokens != null) return '/model_settings/max_output_tokens';
  if (max_tokens != null) return '/max_tokens';
  if (llm_config?.max_tokens != null) return '/llm_config/max_tokens';
  return namesModel(input) ? placeOf(input, handle) : THINKING_BUDGET;
}

/** Refuses a thinking budget that could use up the whole answer, as the provider does. */
function assertBudgetFits({ max_output_tokens, extra }: ModelSettings, path: string): void {
  const thinking = extra['thinking'];
  if (!isJsonObject(thinking) || thinking['type'] !== 'enabled') return;
  const budget = thinking['budget_tokens'];
  const isWhole = typeof budget === 'number' && Number.isInteger(budget);
  if (isWhole && budget >= THINKING_BUDGET_MIN && budget < max_output_tokens) return;
  const bounds = `at least ${THINKING_BUDGET_MIN} and less than max_output_tokens, which is ${max_output_tokens}`;
  const message =
    path === THINKING_BUDGET
      ? `must be a whole number, ${bounds}`
      : `does not fit the agent's thinking, whose budget_tokens, ${JSON.stringify(budget)}, must be ${bounds}`;
  throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}
