import { takesEffort, type Model } from '../models.ts';
import type { MessageParams } from '../scripts/script.ts';
import { addMessage, checkThinking, createConversationHash, isThinking, signatureOf } from '../signature.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue, ValidationContext } from './issue.ts';

const MIN_BUDGET_TOKENS = 1024;

/** The allowed members of each type. */
const MEMBERS = new Map<unknown, readonly string[]>([
  ['adaptive', ['display', 'block_binding']],
  ['between_tools', []],
  ['disabled', []],
  ['enabled', ['budget_tokens', 'display', 'block_binding']],
]);

/** Validates `thinking` by the model's generation. */
export function thinkingIssue(params: MessageParams, model: Model): Issue | undefined {
  const thinking = params['thinking'];
  if (thinking === undefined) return undefined;
  if (!isObject(thinking)) return invalid('thinking: Input should be a valid dictionary');
  const { type, ...others } = thinking;
  const members = MEMBERS.get(type);
  const foreign = Object.keys(others).find((member) => members?.includes(member) === false);
  if (foreign !== undefined)
    return invalid(`thinking.${String(type)}.${foreign}: Extra inputs are not permitted`);
  switch (type) {
    case 'disabled':
      if (model.generation !== '5.5') return undefined;
      return invalid(`thinking.type: thinking cannot be disabled on ${model.id}`);
    case 'between_tools':
      if (model.thinking_disabled_as === 'between_tools') return undefined;
      return invalid(`thinking.type: "between_tools" is not supported by ${model.id}`);
    case 'adaptive':
      return model.generation === '4.5'
        ? invalid(`thinking.type: "adaptive" is not supported by ${model.id}`)
        : undefined;
    case 'enabled': {
      if (model.generation !== '4.5' && model.generation !== '4.6') {
        return invalid(`thinking.type: "enabled" is not supported by ${model.id}; use "adaptive"`);
      }
      const budget = thinking['budget_tokens'];
      if (typeof budget !== 'number' || budget < MIN_BUDGET_TOKENS) {
        return invalid(
          `thinking.enabled.budget_tokens: Input should be greater than or equal to ${MIN_BUDGET_TOKENS}`,
        );
      }
      return budget < params.max_tokens
        ? undefined
        : invalid('`max_tokens` must be greater than `thinking.budget_tokens`');
    }
    default:
      return invalid(
        "thinking: Input tag does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'",
      );
  }
}

/** Validates `output_config.effort`, which some models do not support. */
export function effortIssue(params: MessageParams, model: Model): Issue | undefined {
  const config = params['output_config'];
  if (!isObject(config) || config['effort'] == null || takesEffort(model)) return undefined;
  return invalid('This model does not support the effort parameter.');
}

const MODIFIED =
  '`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.';
const INVALID = 'Invalid `signature` in `thinking` block';
const FOREIGN = `${INVALID}. The block is bound to a different conversation. Remove the block, or set \`thinking.block_binding.prefix_mismatch_behavior\` to "drop_block".`;

/**
 * Validates that thinking blocks came back unchanged. All models detect a modified block. Models with bound blocks also detect
 * another model, or a change in the conversation before a block. The provider may silently drop such a block and the
 * following ones; the simulator always answers with an error, so that the mistake is visible.
 */
export function signatureIssue(
  params: MessageParams,
  model: Model,
  context: ValidationContext,
): Issue | undefined {
  const { messages } = params;
  const holdsThinking = messages.some(
    ({ content }) => typeof content !== 'string' && content.some(isThinking),
  );
  if (!holdsThinking) return undefined;
  const latest = messages.findLastIndex((message) => message.role === 'assistant');
  const conversation = createConversationHash(params);
  let previous: string | undefined;
  for (const [at, message] of messages.entries()) {
    if (typeof message.content === 'string' || message.role !== 'assistant') {
      addMessage(conversation, message);
      continue;
    }
    for (const [index, block] of message.content.entries()) {
      if (isThinking(block)) {
        const binding = { model: params.model, conversation: conversation.value(), previous };
        const check = checkThinking(context.seed, binding, block);
        const path = `messages.${at}.content.${index}`;
        if (check === 'modified') return invalid(`${path}: ${at === latest ? MODIFIED : INVALID}`);
        if (check === 'foreign' && model.binds_thinking === true) return invalid(`${path}: ${FOREIGN}`);
        previous = signatureOf(block);
      }
      conversation.add(message.role, block);
    }
  }
  return undefined;
}
